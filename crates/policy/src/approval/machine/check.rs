//! The ordered list of checks, and the verdict that results from them.

use portcullis_apimachinery::time::Instant;

use super::cluster::{Cluster, Current, Network};
use super::config::{Config, DenyMode};
use super::grants::Grants;
use super::intake::SignerPath;
use super::limits::{Limits, Sound};
use super::own_machine;
use super::question::Question;
use super::reason::{Outcome, Reason};
use super::request::Request;
use super::result::{CheckResult, Evaluation, Failure, Verdict};
use super::rivals::Span;
use super::{client, serving};

/// Evaluates a request (sections 4 and 5): every check in order, as far as possible even after a failure.
/// [`intake()`](super::intake()) decides whether a request is evaluated at all.
pub fn evaluate(request: &Request, path: SignerPath, cluster: &Cluster<'_>, config: &Config) -> Evaluation {
    let no_name = || Failure::of(Reason::NotEvaluated, "the request names no node".to_owned());
    let machine = match request.node_name().filter(|_| path == SignerPath::Client) {
        Some(name) => own_machine::by_dns_name(name, cluster, config),
        None => Err(no_name()),
    };
    let mut question = Question { request, cluster, config, machine, span: None };
    question.span = match path {
        SignerPath::Client => client::span(&question),
        SignerPath::Serving => Some(Span { times: None, key: None, has_authority: true }),
    };
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

/// Evaluates the checks that depend on a request alone (NB-82 to NB-87, NB-101 to NB-108).
pub(super) fn soundness(
    request: &Request,
    path: SignerPath,
    api_server_names: &[String],
    config: &Config,
) -> Sound {
    let (limits, grants) = (Limits::default(), Grants::default());
    let steps = match path {
        SignerPath::Client => client::STEPS,
        SignerPath::Serving => serving::STEPS,
    };
    let passes = |has_bootstrap_ca: bool| {
        let cluster = Cluster {
            now: Instant::default(),
            machines: Err(NOT_READ),
            unreadable: &[],
            pools: &[],
            node: Err(NOT_READ),
            has_bootstrap_ca,
            current: Current::Unavailable(NOT_READ),
            network: Network::Other,
            limits: &limits,
            grants: &grants,
            api_server_names,
        };
        let machine = Err(Failure::of(Reason::NotEvaluated, NOT_READ.to_owned()));
        let question = Question { request, cluster: &cluster, config, machine, span: None };
        let own = steps.iter().filter(|step| is_on_request_alone(step.rule));
        own.into_iter().all(|step| matches!(step.carry_out(&question).result, CheckResult::Passed(_)))
    };
    match (passes(false), passes(true)) {
        (true, _) => Sound::Yes,
        (false, true) => Sound::WithBootstrapAuthority,
        (false, false) => Sound::No,
    }
}

const NOT_READ: &str = "not read";

fn is_on_request_alone(rule: &str) -> bool {
    let number = rule.strip_prefix("NB-").and_then(|number| number.parse::<u32>().ok());
    matches!(number, Some(82..=87 | 101..=108))
}
