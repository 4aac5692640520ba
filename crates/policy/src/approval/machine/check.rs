//! The list of checks in their order, and how they make a verdict.

use std::fmt;

use super::client;
use super::cluster::Cluster;
use super::config::{Config, DenyMode};
use super::intake::SignerPath;
use super::own_machine::{self, Match};
use super::reason::Reason;
use super::request::{Key, Pkcs10, Request};
use super::serving;

/// What is done with a request (NB-60).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It is approved: all rules hold.
    Approve,
    /// It is left alone: a rule failed for good, but somebody else may decide.
    Hold,
    /// It is looked at again: a rule could not be evaluated, or may soon hold.
    Retry,
    /// It is denied.
    Deny,
}

impl Outcome {
    /// The word in annotations, logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Hold => "hold",
            Self::Retry => "retry",
            Self::Deny => "deny",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The decision on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What is done.
    pub outcome: Outcome,
    /// Why.
    pub reason: Reason,
    /// The rule that decided, such as `NB-88`.
    pub rule: &'static str,
    /// What was compared with what, for people.
    pub detail: String,
    /// Whether no honest kubelet makes such a request.
    pub is_forged: bool,
}

/// Why a check failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What follows, before the deny mode is looked at.
    pub outcome: Outcome,
    /// The reason.
    pub reason: Reason,
    /// What was compared with what, for people.
    pub detail: String,
}

impl Failure {
    /// A failure with the outcome that its reason has.
    pub(super) fn of(reason: Reason, detail: String) -> Self {
        Self { outcome: reason.outcome(), reason, detail }
    }

    /// A failure for good, whatever its reason.
    pub(super) fn hold(reason: Reason, detail: String) -> Self {
        Self { outcome: Outcome::Hold, reason, detail }
    }
}

/// What came of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckResult {
    /// It holds; what was found, for people.
    Passed(String),
    /// The configuration does not ask for it.
    NotRequired(&'static str),
    /// It does not hold.
    Failed(Failure),
    /// It could not be carried out, because of what failed before.
    NotEvaluated(&'static str),
}

impl From<Result<String, Failure>> for CheckResult {
    fn from(result: Result<String, Failure>) -> Self {
        result.map_or_else(Self::Failed, Self::Passed)
    }
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The rule, such as `NB-88`.
    pub rule: &'static str,
    /// What is required.
    pub what: &'static str,
    /// What came of it.
    pub result: CheckResult,
    /// Whether it is one of several ways of which one suffices.
    pub is_alternative: bool,
}

/// All checks of a request in their order, and the verdict. The first that fails decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluation {
    /// The checks.
    pub checks: Vec<Check>,
    /// The verdict.
    pub verdict: Verdict,
}

/// A request beside everything that it is compared with.
pub(super) struct Question<'a> {
    pub(super) request: &'a Request,
    pub(super) cluster: &'a Cluster<'a>,
    pub(super) config: &'a Config,
    pub(super) path: SignerPath,
    /// The Machine that has the node's name (NB-89, NB-90); on the client path only.
    pub(super) machine: Result<Match<'a>, Failure>,
}

/// A check before it is carried out.
pub(super) struct Step {
    pub(super) rule: &'static str,
    pub(super) what: &'static str,
    pub(super) run: fn(&Question<'_>) -> CheckResult,
}

impl Step {
    pub(super) fn carry_out(&self, question: &Question<'_>) -> Check {
        Check { rule: self.rule, what: self.what, result: (self.run)(question), is_alternative: false }
    }
}

/// Evaluates a request (sections 4 and 5): every check in its order, whether or not one before has failed, as far as it
/// can be carried out. Whether the request is to be looked at at all says [`intake()`](super::intake()).
pub fn evaluate(request: &Request, path: SignerPath, cluster: &Cluster<'_>, config: &Config) -> Evaluation {
    let no_name = || Failure::of(Reason::NotEvaluated, "the request names no node".to_owned());
    let machine = match request.node_name().filter(|_| path == SignerPath::Client) {
        Some(name) => own_machine::by_dns_name(name, cluster, config),
        None => Err(no_name()),
    };
    let question = Question { request, cluster, config, path, machine };
    let (checks, last) = match path {
        SignerPath::Client => client::evaluate(&question),
        SignerPath::Serving => serving::evaluate(&question),
    };
    let failed = checks.iter().filter(|check| !check.is_alternative).find_map(|check| {
        let failure = match &check.result {
            CheckResult::Passed(_) | CheckResult::NotRequired(_) => return None,
            CheckResult::Failed(failure) => failure.clone(),
            CheckResult::NotEvaluated(why) => Failure::of(Reason::NotEvaluated, (*why).to_owned()),
        };
        Some((check.rule, failure))
    });
    let verdict = match failed {
        Some((rule, failure)) => refused(rule, failure, config),
        None => match last {
            Ok(approval) => Verdict {
                outcome: Outcome::Approve,
                reason: approval.reason,
                rule: approval.rule,
                detail: approval.detail,
                is_forged: false,
            },
            Err((rule, failure)) => refused(rule, failure, config),
        },
    };
    Evaluation { checks, verdict }
}

/// What speaks for a request whose checks all passed.
pub(super) struct Approval {
    pub(super) rule: &'static str,
    pub(super) reason: Reason,
    pub(super) detail: String,
}

/// What a path comes to beside its checks: the approval, or the rule that refuses all the same.
pub(super) type Last = Result<Approval, (&'static str, Failure)>;

/// NB-60: what a failure comes to under the deny mode.
fn refused(rule: &'static str, failure: Failure, config: &Config) -> Verdict {
    let is_forged = failure.reason.is_forged();
    let is_denied = match config.deny_mode {
        DenyMode::Never => false,
        DenyMode::Superseded => failure.reason == Reason::Superseded,
        DenyMode::Strict => is_forged,
    };
    Verdict {
        outcome: if is_denied { Outcome::Deny } else { failure.outcome },
        reason: failure.reason,
        rule,
        detail: failure.detail,
        is_forged,
    }
}

/// NB-70 to NB-73.
pub(super) fn within_limit(question: &Question<'_>) -> CheckResult {
    question.cluster.limits.check_total(question.request).into()
}

/// NB-75.
pub(super) fn newest(question: &Question<'_>) -> CheckResult {
    question.cluster.limits.check_newest(question.request, question.path).into()
}

/// NB-74.
pub(super) fn within_identity(question: &Question<'_>) -> CheckResult {
    question.cluster.limits.check_identity(question.request).into()
}

/// NB-82, NB-101: one request, signed with its own key, which is sound.
pub(super) fn well_formed(question: &Question<'_>) -> CheckResult {
    let malformed = |why: String| CheckResult::Failed(Failure::of(Reason::MalformedRequest, why));
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
        key if key.is_sound() => CheckResult::Passed(String::new()),
        Key::Rsa { bits } => malformed(format!("an RSA key of {bits} bits; 2048 are needed")),
        _ => malformed("the key is not ECDSA P-256, P-384 or P-521, RSA or Ed25519".to_owned()),
    }
}

/// The content, for checks that come after NB-82.
pub(super) fn content<'a>(question: &Question<'a>) -> Result<&'a Pkcs10, CheckResult> {
    question.request.content.as_ref().map_err(|_| CheckResult::NotEvaluated("the request cannot be read"))
}

/// What is asked for, as a set, where order and repetition do not count.
pub(super) fn same_set<'a>(
    have: impl IntoIterator<Item = &'a str>,
    want: impl IntoIterator<Item = &'a str>,
) -> bool {
    let sorted = |items: Vec<&'a str>| {
        let mut items = items;
        items.sort_unstable();
        items.dedup();
        items
    };
    sorted(have.into_iter().collect()) == sorted(want.into_iter().collect())
}

/// NB-83, NB-104: `digital signature`, one more, and with or without `key encipherment`.
pub(super) fn has_usages(request: &Request, purpose: &'static str) -> bool {
    let have = || request.usages.iter().map(String::as_str);
    same_set(have(), ["digital signature", purpose])
        || same_set(have(), ["digital signature", "key encipherment", purpose])
}

const KEY_USAGE: &str = "2.5.29.15";
const EXTENDED_KEY_USAGE: &str = "2.5.29.37";
const BASIC_CONSTRAINTS: &str = "2.5.29.19";
/// The provider's id of the machine, under the arc that is in use until Kubernetes has its own (AT-40).
const PROVIDER_ID: &str = "1.3.6.1.4.1.11129.2.1.21";
/// Subject alternative names.
pub(super) const SUBJECT_ALT_NAME: &str = "2.5.29.17";

/// NB-83, NB-108: the first extension that may not be requested.
pub(super) fn forbidden_extension(content: &Pkcs10, also: Option<&str>) -> Option<String> {
    content.extensions.iter().find_map(|extension| match extension.oid.as_str() {
        KEY_USAGE | EXTENDED_KEY_USAGE | PROVIDER_ID => None,
        BASIC_CONSTRAINTS if !extension.is_ca => None,
        BASIC_CONSTRAINTS => Some("basic constraints of an authority".to_owned()),
        oid if Some(oid) == also => None,
        oid => Some(format!("the extension {oid}")),
    })
}
