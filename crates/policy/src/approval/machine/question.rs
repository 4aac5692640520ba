//! What a check is given, and what a path comes to.

use super::cluster::Cluster;
use super::config::Config;
use super::intake::SignerPath;
use super::own_machine::Match;
use super::reason::Reason;
use super::request::Request;
use super::result::{Check, CheckResult, Failure};

/// A request together with the data that it is checked against.
pub(super) struct Question<'a> {
    pub(super) request: &'a Request,
    pub(super) cluster: &'a Cluster<'a>,
    pub(super) config: &'a Config,
    pub(super) path: SignerPath,
    /// The Machine with the node's name (NB-89, NB-90); on the client path only.
    pub(super) machine: Result<Match<'a>, Failure>,
}

/// A check that has not been evaluated yet.
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

/// The approval of a request whose checks all passed.
pub(super) struct Approval {
    pub(super) rule: &'static str,
    pub(super) reason: Reason,
    pub(super) detail: String,
}

/// The final result of a path: the approval, or a rule that still refuses the request.
pub(super) type Last = Result<Approval, (&'static str, Failure)>;
