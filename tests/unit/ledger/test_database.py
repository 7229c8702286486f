"""A ledger's URL: what is wrong with it is one line, and its password is nowhere."""

from __future__ import annotations

import pytest

from firstlight.errors import FirstlightError, InputError
from firstlight.ledger import cli as ledger_cli
from firstlight.ledger.claim import claims_of
from firstlight.ledger.database import connect_args, parsed, reason, shown
from firstlight.ledger.store import Ledger
from firstlight.policy import cli as policy_cli
from firstlight.tickets import cli as tickets_cli

PG = "postgresql+psycopg://"
CLOSED = "127.0.0.1:1"  # nothing listens there


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("postgresql://u:SECRET@h/db", "postgresql://u:***@h/db"),
        ("postgresql://u@h/db", "postgresql://u@h/db"),
        ("postgresql://u:SEC?RE%2FT@h/db?sslmode=require", "postgresql://u:***@h/db?sslmode=require"),
        ("postgresql://h/db?password=SECRET&sslmode=require", "postgresql://h/db?password=***&sslmode=require"),
        ("postgresql://h/db?PassWord=SECRET&%70assword=SECRET", "postgresql://h/db?PassWord=***&%70assword=***"),
        ("postgresql://h/?passfile=SECRET&sslpassword=SECRET&new=SECRET&SECRET",
         "postgresql://h/?passfile=***&sslpassword=***&new=***&***"),
        ("postgresql://u:SEC/RE@TSECRET@h/db", "postgresql://***@h/db"),
        ("postgresql://u:SECRET@SECRET:SECRET@h/db", "postgresql://***@h/db"),
        ("postgresql://u/SECRET:SECRET@h/db", "postgresql://***@h/db"),
        ("postgresql://u:SECRET@h:notaport/db", "postgresql://***@h:notaport/db"),
        ("postgresql://u:SECRET@h:notaport/db?password=SEC@RET", "postgresql://***@h:notaport/db?password=***"),
        ("postgresql://u:SECRET/db", "postgresql://u:***"),
        ("postgresql://h/db?host=u:SECRET@h2", "postgresql://h/db?host=***"),
        ("mysql://u:SECRET@h/db", "mysql://u:***@h/db"),
        ("sqlite://u:SECRET@h/db", "sqlite://u:***@h/db"),
        ("sqlite:////srv/a@b/ledger.sqlite", "sqlite:////srv/a@b/ledger.sqlite"),
        ("sqlite://", "sqlite://"),
        ("u:SECRET@h/db", "(not a URL)"),
        ("/SECRET/x://y", "(not a URL)"),
    ],
)  # fmt: skip
def test_a_url_for_people_has_no_password_and_is_else_as_it_was(url, said):
    assert shown(url) == said


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("nonsense://x", "only SQLite and PostgreSQL hold a ledger"),
        ("mysql://u:SECRET@h/fl", "only SQLite and PostgreSQL hold a ledger"),
        ("://", "not a URL of a database; write a file name"),
        (f"{PG}u:SECRET@127.0.0.1:notaport/fl", "not a URL of a database"),
        (f"{PG}[::1/fl", "ledger"),
        (f"{PG}u:SEC/RET@SECRET@{CLOSED}/fl", "an @ is written %40"),
        (f"{PG}u/SECRET:SECRET@{CLOSED}/fl", "an @ is written %40"),
        (f"{PG}{CLOSED}/fl?password=SECRET", "cannot be opened"),
        (f"{PG}u:SECRET@{CLOSED}/fl", "cannot be opened"),
        (f"{PG}u@{CLOSED}/fl?nosuch=SECRET", "cannot be opened"),
        (f"{PG}u@/fl?host=h:notaport&password=SECRET", "ledger"),
        ("postgresql+nosuch://u:SECRET@h/fl", "Can't load plugin"),
        ("postgresql+asyncpg://u:SECRET@h/fl", "asyncpg"),
        ("sqlite://u:SECRET@h/db", "write the file's name alone"),
        ("sqlite:///x?timeout=SECRET", "write the file's name alone"),
    ],
)
def test_every_command_ends_with_one_line_without_the_password(url, said, capsys):
    for main, words in ((ledger_cli.main, ["list"]), (policy_cli.main, []), (tickets_cli.main, ["list"])):
        if url.startswith("sqlite:///"):
            break  # of a file they say that there is none
        assert main([*words, "--ledger", url]) == 1
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1), err
        assert said in err
        assert "SEC" not in err
        assert "RET" not in err
    with pytest.raises(FirstlightError, match=said.replace("?", r"\?")) as caught:
        Ledger(url, create=False)  # as the inventory and a run open it
    assert "SEC" not in str(caught.value)


@pytest.mark.parametrize("url", ["mysql://h/fl", f"{PG}h:notaport/fl", f"{PG}u:SEC@RET@h/fl", "nonsense"])
def test_claims_leave_a_wrong_url_to_the_ledger(url):
    assert claims_of(url) is None


def test_claims_do_not_show_the_password():
    for url in (f"{PG}u:SECRET@{CLOSED}/fl", f"{PG}{CLOSED}/fl?password=SECRET", f"{PG}u@{CLOSED}/fl?nosuch=SECRET"):
        with pytest.raises(FirstlightError, match="hosts cannot be claimed") as caught:
            claims_of(url).take(["n1"])
        assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize(
    "url", [f"{PG}u:S%40CRET@h/fl", f"{PG}u@h/fl?password=S%40CRET", f"{PG}u@h/fl?sslpassword=S@CRET&sslmode=require"]
)
def test_the_driver_s_own_words_are_told_without_the_password(url):
    assert reason(Exception("cannot use S@CRET (S%40CRET) of u at h"), url) in (
        "cannot use *** (***) of u at h",
        "cannot use *** (S%40CRET) of u at h",  # where it was not written so
    )


def test_what_the_url_says_stays():
    assert parsed(f"{PG}u:S%40CRET@h:5/fl").password == "S@CRET"
    assert connect_args("sqlite://") == {"timeout": 30}
    with pytest.raises(InputError):
        parsed("nonsense")


def test_an_empty_file_is_no_ledger_yet(tmp_path, capsys):
    (tmp_path / "empty").touch()
    for main, words in (
        (ledger_cli.main, ["list"]), (ledger_cli.main, ["show", "n1"]), (ledger_cli.main, ["export"]),
        (policy_cli.main, []), (tickets_cli.main, ["list"]),
    ):  # fmt: skip
        assert main([*words, "--ledger", str(tmp_path / "empty")]) == 1
        assert "is empty; the first run of a playbook makes it" in capsys.readouterr().err
