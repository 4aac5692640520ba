//! The input of the checks, their outcome, and the checks that client and serving requests share.

use super::cluster::Cluster;
use super::config::Config;
use super::own_machine::Match;
use super::reason::Reason;
use super::request::{Key, Pkcs10, Request};
use super::result::{Check, CheckResult, Failure};
use super::rivals::Span;

/// A request together with the data that it is checked against.
pub(super) struct Question<'a> {
    pub(super) request: &'a Request,
    pub(super) cluster: &'a Cluster<'a>,
    pub(super) config: &'a Config,
    /// The Machine with the node's name (NB-89, NB-90); on the client path only.
    pub(super) machine: Result<Match<'a>, Failure>,
    /// Which requests for the same name pass their own checks; none if no request can.
    pub(super) span: Option<Span>,
}

/// The finding of a check, for people; an error is any result but [`CheckResult::Passed`].
pub(super) type Finding = Result<String, CheckResult>;

/// A check that has not been evaluated yet.
pub(super) struct Step {
    pub(super) rule: &'static str,
    pub(super) what: &'static str,
    pub(super) run: fn(&Question<'_>) -> Finding,
}

impl Step {
    pub(super) fn carry_out(&self, question: &Question<'_>) -> Check {
        let result = (self.run)(question).map_or_else(|other| other, CheckResult::Passed);
        Check { rule: self.rule, what: self.what, result, is_alternative: false }
    }
}

/// The approval of a request whose checks all passed.
pub(super) struct Approval {
    pub(super) rule: &'static str,
    pub(super) reason: Reason,
    pub(super) detail: String,
}

/// The final result of a path: the approval, or a rule that still refuses the request.
pub(super) type Last = Result<Approval, (&'static str, Failure)>;

/// A failed check.
pub(super) fn failed(reason: Reason, detail: String) -> Finding {
    Err(Failure::of(reason, detail).into())
}

/// NB-70 to NB-73.
pub(super) fn within_limit(question: &Question<'_>) -> Finding {
    Ok(question.cluster.limits.check_total(question.request)?)
}

/// NB-75.
pub(super) fn newest(question: &Question<'_>) -> Finding {
    Ok(question.cluster.limits.rivals.check_newest(question.request, question.span)?)
}

/// NB-74.
pub(super) fn within_identity(question: &Question<'_>) -> Finding {
    Ok(question.cluster.limits.rivals.check_identity(question.request, question.span)?)
}

/// NB-75a.
pub(super) fn uncontested(question: &Question<'_>) -> Finding {
    Ok(question.cluster.limits.rivals.check_contested(question.request, question.span)?)
}

/// NB-82, NB-101: exactly one request, signed with its own key, which must be acceptable.
pub(super) fn well_formed(question: &Question<'_>) -> Finding {
    let malformed = |why| failed(Reason::MalformedRequest, why);
    let content = match &question.request.content {
        Ok(content) => content,
        Err(why) => return malformed(why.clone()),
    };
    if content.has_trailing_data {
        return malformed("more follows the first PEM block".to_owned());
    }
    if content.is_sha1 {
        return malformed("the request is signed over a SHA-1 hash".to_owned());
    }
    match content.key {
        Key::Rsa { bits } if bits < 2048 => malformed(format!("an RSA key of {bits} bits; 2048 are needed")),
        _ => Ok(String::new()),
    }
}

/// Returns the content, for checks after NB-82.
pub(super) fn content<'a>(question: &Question<'a>) -> Result<&'a Pkcs10, CheckResult> {
    question.request.content.as_ref().map_err(|_| CheckResult::NotEvaluated("the request cannot be read"))
}

const KEY_USAGE: &str = "2.5.29.15";
const EXTENDED_KEY_USAGE: &str = "2.5.29.37";
const BASIC_CONSTRAINTS: &str = "2.5.29.19";
/// The provider ID of the machine, under the OID arc that is used until Kubernetes has its own (AT-40).
const PROVIDER_ID: &str = "1.3.6.1.4.1.11129.2.1.21";
/// Subject alternative names.
pub(super) const SUBJECT_ALT_NAME: &str = "2.5.29.17";

/// NB-83, NB-108: returns the first extension that must not be requested.
pub(super) fn forbidden_extension(content: &Pkcs10, also: Option<&str>) -> Option<String> {
    content.extensions.iter().find_map(|extension| match extension.oid.as_str() {
        KEY_USAGE | EXTENDED_KEY_USAGE | PROVIDER_ID => None,
        BASIC_CONSTRAINTS if !extension.is_ca => None,
        BASIC_CONSTRAINTS => Some("basic constraints of an authority".to_owned()),
        oid if Some(oid) == also => None,
        oid => Some(format!("the extension {oid}")),
    })
}
