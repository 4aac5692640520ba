//! The ordered list of checks, and the verdict that results from them.

use super::cluster::Cluster;
use super::config::{Config, DenyMode};
use super::intake::SignerPath;
use super::own_machine;
use super::question::Question;
use super::reason::{Outcome, Reason};
use super::request::Request;
use super::result::{CheckResult, Evaluation, Failure, Verdict};
use super::{client, serving};

/// Evaluates a request (sections 4 and 5): every check in order, as far as possible even after a failure.
/// [`intake()`](super::intake()) decides whether a request is evaluated at all.
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

/// NB-60: applies the deny mode to a failure.
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
