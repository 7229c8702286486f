"""Error bodies in iDRAC's shape. Clients tell them apart by the last part of the MessageId."""

from __future__ import annotations

from typing import Any

BMC = "IDRAC.2.8."
BASE = "Base.1.12."


class RedfishError(Exception):
    """A request that the BMC refuses: HTTP status, MessageId, text, and what goes with it."""

    def __init__(
        self,
        status: int,
        message_id: str,
        message: str,
        arguments: tuple[str, ...] = (),
        severity: str = "Warning",
        related: tuple[str, ...] = (),
        also: RedfishError | None = None,
    ) -> None:
        """Keep the parts; `also` adds a second message to the same body."""
        super().__init__(message)
        self.status = status
        self.entry: dict[str, Any] = {
            "Message": message,
            "MessageArgs": list(arguments),
            "MessageArgs@odata.count": len(arguments),
            "MessageId": message_id,
            "RelatedProperties": list(related),
            "RelatedProperties@odata.count": len(related),
            "Severity": severity,
        }
        self.also = also

    def body(self, dell: bool = True) -> dict[str, Any]:
        """Return the whole error body; without Dell's own messages where the BMC is not a Dell."""
        entries = [self.entry]
        if self.also is not None:
            entries.append(self.also.entry)
        if not dell:
            entries = [
                entry
                | {"MessageId": _standard(entry["MessageId"]), "Message": entry["Message"].replace("iDRAC", "The BMC")}
                for entry in entries
            ]
        return {
            "error": {
                "@Message.ExtendedInfo": entries,
                "code": BASE + "GeneralError",
                "message": "A general error has occurred. See ExtendedInfo for more information",
            }
        }


_STANDARD = {
    "RAC0218": "SessionLimitExceeded",
    "SYS518": "ServiceTemporarilyUnavailable",
    "SYS446": "InternalError",
    "SYS402": "OperationNotAllowed",
    "SYS011": "ResourceInUse",
    "RED007": "ActionParameterValueError",
}


def _standard(message_id: str) -> str:
    """The standard's MessageId for one of Dell's."""
    code = message_id.rpartition(".")[2]
    return BASE + _STANDARD.get(code, "GeneralError") if message_id.startswith(BMC) else message_id


def success() -> dict[str, Any]:
    """Return the body that iDRAC sends after a change that needed no more than that."""
    return {
        "@Message.ExtendedInfo": [
            {
                "Message": "The request completed successfully.",
                "MessageArgs": [],
                "MessageArgs@odata.count": 0,
                "MessageId": BASE + "Success",
                "RelatedProperties": [],
                "RelatedProperties@odata.count": 0,
                "Resolution": "None",
                "Severity": "OK",
            }
        ]
    }


def not_found(path: str) -> RedfishError:
    """Return the error for a resource that does not exist."""
    return RedfishError(
        404, BASE + "ResourceMissingAtURI", f"The resource at the URI {path} was not found.", (path,), "Critical"
    )


def access_denied() -> RedfishError:
    """Return the error for missing or wrong credentials, and for a blocked address: a client cannot tell which."""
    return RedfishError(
        401,
        BASE + "AccessDenied",
        "The authentication credentials included with this request are missing or invalid.",
        severity="Critical",
    )


def too_many_sessions() -> RedfishError:
    """Return the error for a ninth session."""
    return RedfishError(
        503, BMC + "RAC0218", "The maximum number of user sessions is reached.", severity="Informational"
    )


def not_ready(seconds: int, code: str = "SYS518") -> RedfishError:
    """Return what an iDRAC says in the minutes after its own start, in one of three ways; SYS518 tells the delay."""
    if code == "SYS446":
        return internal()
    if code == "SWC0700":
        text = "iDRAC is not ready. The configuration values cannot be accessed. Please retry after a few minutes."
        return RedfishError(400, BMC + "SWC0700", text, severity="Informational")
    return RedfishError(
        503,
        BMC + "SYS518",
        "iDRAC is currently unable to display any information because data sources are unavailable.",
        severity="Informational",
        also=RedfishError(
            503,
            BASE + "ServiceTemporarilyUnavailable",
            f"The service is temporarily unavailable.  Retry in {seconds} seconds.",
            (str(seconds),),
            "Critical",
        ),
    )


def internal() -> RedfishError:
    """Return what a wedged iDRAC says."""
    return RedfishError(
        500,
        BMC + "SYS446",
        "The requested operation cannot be completed because of an internal error.",
        severity="Critical",
    )


def already_on() -> RedfishError:
    """Return the error for switching on what is on."""
    return RedfishError(409, BMC + "PSU501", "Server is already powered ON.", severity="Informational")


def already_off() -> RedfishError:
    """Return the error for an action that needs power."""
    return RedfishError(409, BMC + "PSU502", "Server is already powered OFF.", severity="Informational")


def pending_job() -> RedfishError:
    """Return the error for a setting while a job waits for the next boot."""
    return RedfishError(
        400,
        BMC + "SYS011",
        "Pending configuration values are already committed, unable to perform another set operation.",
    )


def malformed() -> RedfishError:
    """Return the error for a body that is not a JSON object."""
    return RedfishError(
        400,
        BASE + "MalformedJSON",
        "The request body submitted was malformed JSON and could not be parsed by the receiving service.",
        severity="Critical",
    )


def no_such_query(name: str) -> RedfishError:
    """Return the error for a query parameter that the firmware does not know."""
    return RedfishError(501, BASE + "QueryNotSupported", f"Querying with {name} is not supported.", (name,))


def bad_package() -> RedfishError:
    """Return the error for a file that is no update package."""
    return RedfishError(400, BMC + "RED007", "Unable to verify Update Package signature.", severity="Critical")


def value_not_in_list(value: object, name: str) -> RedfishError:
    """Return the error for a value that the property does not allow."""
    return RedfishError(
        400,
        BASE + "PropertyValueNotInList",
        f"The value {value} for the property {name} is not in the list of acceptable values.",
        (str(value)[:100], name),
        related=(f"#/{name}",),
    )


def missing(name: str) -> RedfishError:
    """Return the error for a request without a property that it needs."""
    return RedfishError(
        400,
        BASE + "PropertyMissing",
        f"The property {name} is a required property and must be included in the request.",
        (name,),
        related=(f"#/{name}",),
    )


def not_writable(name: str) -> RedfishError:
    """Return the error for a property that cannot be set here."""
    return RedfishError(
        400,
        BASE + "PropertyNotWritable",
        f"The property {name} is a read-only property and cannot be assigned a value.",
        (name,),
        related=(f"#/{name}",),
    )


def unknown_property(name: str) -> RedfishError:
    """Return the error for a property that the resource does not have."""
    return RedfishError(
        400,
        BASE + "PropertyUnknown",
        f"The property {name} is not in the list of valid properties for the resource.",
        (name,),
        related=(f"#/{name}",),
    )


def method_not_allowed() -> RedfishError:
    """Return the error for a method that the resource does not support."""
    return RedfishError(
        405,
        BMC + "SYS402",
        "Unable to complete the operation because the HTTP method used is not supported by the resource.",
        severity="Critical",
    )


def needs_etag() -> RedfishError:
    """Return the error for a change without If-Match, where the firmware insists on one."""
    return RedfishError(
        428,
        "Ami.1.0.PreconditionHeaderMissing",
        "The request did not provide the required precondition, such as an If-Match or If-None-Match header.",
        severity="Critical",
    )


def blocked(status: int) -> RedfishError:
    """Return what a BMC says that does not talk to this address for now."""
    if status == 429:
        return RedfishError(
            429, BASE + "RequestLimitExceeded", "Too many requests from this address.", severity="Critical"
        )
    error = access_denied()
    error.status = status
    return error


def stale() -> RedfishError:
    """Return the error for an If-Match that names an older version."""
    return RedfishError(
        412,
        BASE + "PreconditionFailed",
        "The ETag supplied did not match the ETag required to change this resource.",
        severity="Critical",
    )
