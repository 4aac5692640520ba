//! The approver on files: prints every check of one request in order, and the decision (NB-143). It uses the same code
//! as on a cluster; what only a cluster can provide, such as a kubelet's current certificate, counts as unknown.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use portcullis_apimachinery::time::Instant;
use portcullis_client::approver::{instant, pkcs10};
use portcullis_policy::approval::machine::{
    self, Check, CheckResult, Cluster, Config, Current, Evaluation, Grants, Ignored, Intake, Known, Limits,
    Machine, MachinePool, Member, Network, Node, Outcome, Request, SignerPath, evaluate, intake,
};
use portcullis_server::state::{self, Document, Fault};
use serde_json::{Value, json};

use crate::failure::Failure;

/// The objects in the files.
#[derive(Default)]
struct Objects {
    machines: Vec<Machine>,
    pools: Vec<MachinePool>,
    nodes: Vec<Node>,
    requests: Vec<Request>,
    has_bootstrap_ca: bool,
}

/// Prints the checks and the decision.
///
/// # Errors
/// Files cannot be read, or the time is invalid.
pub(super) fn run(
    csr: &Path,
    paths: &[PathBuf],
    now: Option<&str>,
    is_json: bool,
    config: &Config,
) -> Result<ExitCode, Failure> {
    let now = match now {
        Some(text) => Instant::parse(text).map_err(|error| Failure::input(format_args!("--now {error}")))?,
        None => instant(SystemTime::now()),
    };
    let request = the_request(csr)?;
    let objects = read(paths, config)?;
    let Some(path) = SignerPath::of(&request.signer_name) else {
        let ignored = Ignored::ForeignSigner.as_str();
        print(&request, Some(ignored), None, is_json)?;
        return Ok(ExitCode::from(1));
    };
    let ignored = match intake(&request, config) {
        Intake::Ignored(why) => Some(why.as_str()),
        Intake::Evaluate(_) => None,
    };
    let others = || objects.requests.iter().filter(|other| other.name != request.name);
    let names = objects.nodes.iter().map(|node| node.name.as_str());
    let all = others().chain([&request]);
    let known =
        Known { machines: &objects.machines, pools: &objects.pools, unreadable: &[], is_blind: false };
    let limits = Limits::of(all, known, names, &[], config, now);
    let grants = Grants::of(others());
    let node = objects.nodes.iter().find(|node| request.node_name() == Some(&*node.name));
    let cluster = Cluster {
        now,
        machines: Ok(&objects.machines),
        unreadable: &[],
        pools: &objects.pools,
        node: Ok(node),
        has_bootstrap_ca: objects.has_bootstrap_ca,
        current: Current::Unavailable("files do not tell"),
        network: Network::Other,
        limits: &limits,
        grants: &grants,
        api_server_names: &[],
    };
    let evaluation = evaluate(&request, path, &cluster, config);
    let is_approved = ignored.is_none() && evaluation.verdict.outcome == Outcome::Approve;
    print(&request, ignored, Some(&evaluation), is_json)?;
    Ok(ExitCode::from(u8::from(!is_approved)))
}

/// Returns the only request in a file.
fn the_request(path: &Path) -> Result<Request, Failure> {
    let mut found = Vec::new();
    state::documents(&[path.to_owned()], &mut |document: Document<'_>| {
        if is_request(&document) {
            found.push(request_of(document.json)?);
        }
        Ok(())
    })
    .map_err(Failure::input)?;
    let count = found.len();
    match (found.pop(), count) {
        (Some(request), 1) => Ok(request),
        _ => Err(Failure::input(format_args!(
            "--csr {}: {count} CertificateSigningRequests; exactly one is needed",
            path.display()
        ))),
    }
}

fn is_request(document: &Document<'_>) -> bool {
    (document.api_version, document.kind) == ("certificates.k8s.io/v1", "CertificateSigningRequest")
}

fn request_of(json: &str) -> Result<Request, Fault> {
    Request::from_json(json, pkcs10).map_err(|error| (String::new(), error.to_string()))
}

fn read(paths: &[PathBuf], config: &Config) -> Result<Objects, Failure> {
    let mut objects = Objects::default();
    if paths.is_empty() {
        return Ok(objects);
    }
    let fault = |error: machine::ObjectError| -> Fault { (String::new(), error.to_string()) };
    state::documents(paths, &mut |document: Document<'_>| {
        match (document.api_version, document.kind) {
            ("v1", "Node") => objects.nodes.push(Node::from_json(document.json).map_err(fault)?),
            ("v1", "ConfigMap") => objects.has_bootstrap_ca |= is_bootstrap_ca(document.json, config),
            _ if is_request(&document) => objects.requests.push(request_of(document.json)?),
            _ => match machine::read(document.json).map_err(fault)? {
                Some(Member::Machine(machine)) => objects.machines.push(*machine),
                Some(Member::Pool(pool)) => objects.pools.push(pool),
                None => {}
            },
        }
        Ok(())
    })
    .map_err(Failure::input)?;
    Ok(objects)
}

/// Returns whether a ConfigMap is the one with the bootstrap CA (NB-14).
fn is_bootstrap_ca(json: &str, config: &Config) -> bool {
    let map: Value = serde_json::from_str(json).unwrap_or_default();
    let text = |path: &str| map.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let at = &config.bootstrap_ca;
    let namespace = text("/metadata/namespace");
    let is_there = match &at.namespace {
        Some(own) => own == namespace,
        None => matches!(namespace, "openshift-config" | "openshift-config-managed"),
    };
    let bundle = map.get("data").and_then(|data| data.get(&at.key)).and_then(Value::as_str);
    is_there && text("/metadata/name") == at.name && bundle.is_some_and(|bundle| !bundle.trim().is_empty())
}

/// Returns the word and the sentence for a check.
fn told(check: &Check) -> (&'static str, String) {
    match &check.result {
        CheckResult::Passed(detail) => ("pass", detail.clone()),
        CheckResult::NotRequired(why) => ("skip", (*why).to_owned()),
        CheckResult::Failed(failure) if check.is_alternative => ("no", failure.detail.clone()),
        CheckResult::Failed(failure) => ("FAIL", format!("{}: {}", failure.reason, failure.detail)),
        CheckResult::NotEvaluated(why) => ("-", (*why).to_owned()),
    }
}

fn print(
    request: &Request,
    ignored: Option<&str>,
    evaluation: Option<&Evaluation>,
    is_json: bool,
) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let checks = evaluation.map(|evaluation| evaluation.checks.as_slice()).unwrap_or_default();
    let verdict = evaluation.map(|evaluation| &evaluation.verdict);
    if is_json {
        let rows: Vec<Value> = checks
            .iter()
            .map(|check| {
                let (result, detail) = told(check);
                json!({"rule": check.rule, "check": check.what, "result": result.to_lowercase(), "detail": detail})
            })
            .collect();
        let decision = match (ignored, verdict) {
            (None, Some(verdict)) => json!({
                "outcome": verdict.outcome.as_str(),
                "reason": verdict.reason.as_str(),
                "rule": verdict.rule,
                "detail": verdict.detail,
                "forged": verdict.is_forged,
            }),
            (ignored, _) => json!({"outcome": "ignore", "detail": ignored}),
        };
        writeln!(out, "{}", json!({"name": request.name, "checks": rows, "decision": decision}))?;
        return Ok(());
    }
    for check in checks {
        let (result, detail) = told(check);
        let line = format!("{:<7} {result:<5} {:<48} {detail}", check.rule, check.what);
        writeln!(out, "{}", line.trim_end())?;
    }
    match (ignored, verdict) {
        (None, Some(verdict)) => {
            let (outcome, reason, rule) = (verdict.outcome, verdict.reason, verdict.rule);
            let line = format!("{}: {outcome}: {reason} ({rule}) {}", request.name, verdict.detail);
            writeln!(out, "{}", line.trim_end())?;
        }
        (ignored, _) => writeln!(out, "{}: ignore: {}", request.name, ignored.unwrap_or_default())?,
    }
    Ok(())
}
