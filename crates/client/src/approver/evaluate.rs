//! Evaluates one request: reads what the rules need, decides, and writes the decision.

use portcullis_policy::approval::machine::{
    CheckResult, Cluster, Current, Evaluation, Grant, Grants, HostSubnet, Intake, Leaf, Limits, Network,
    Node, Outcome, Reason, Request, SignerPath, Verdict, dial_target, evaluate, intake, named,
};
use serde_json::Value;

use super::lookup::{self, Machines};
use super::shared::Shared;
use super::{facts, kubelet, report};
use crate::call::{REQUESTS, Resource};
use crate::lease::Leadership;

/// The maximum number of conflicts before an evaluation is given up.
const CONFLICTS: u32 = 5;

/// The result of evaluating a request.
#[derive(Debug)]
pub(super) enum Looked {
    /// The request is gone, already decided, or not for this approver.
    Over,
    /// The request was decided.
    Decided(Verdict),
    /// The request could not be read or written, with the error.
    Failed(String),
}

/// The objects that were read to evaluate one request.
struct Found {
    machines: Result<Machines, String>,
    node: Result<Option<Node>, String>,
    has_bootstrap_ca: bool,
    current: Result<Leaf, String>,
    network: Net,
}

enum Net {
    Other,
    Sdn(Option<HostSubnet>),
    Unknown(String),
}

/// Evaluates a request, under the lock of its node name.
pub(super) async fn look(shared: &Shared, name: &str, leadership: Option<&Leadership>) -> Looked {
    for _ in 0..CONFLICTS {
        let object: Value = match shared.workload.find(&REQUESTS, name).await {
            Ok(Some(object)) => object,
            Ok(None) => return Looked::Over,
            Err(error) => return Looked::Failed(error.to_string()),
        };
        let request = match Request::from_json(&object.to_string(), facts::pkcs10) {
            Ok(request) => request,
            Err(error) => return Looked::Failed(error.to_string()),
        };
        let config = shared.config.load_full();
        let path = match intake(&request, &config) {
            Intake::Evaluate(path) => path,
            Intake::Ignored(why) => {
                tracing::debug!(csr = name, why = why.as_str(), "the request is skipped");
                return Looked::Over;
            }
        };
        let (verdict, machines) = decide(shared, &request, path).await;
        let is_new = shared.is_news(&request, report::decision(&verdict), report::last_decision(&object));
        let writes = matches!(verdict.outcome, Outcome::Approve | Outcome::Deny);
        if !shared.is_dry_run && writes {
            // NB-57: only the leader writes.
            if leadership.is_some_and(|leadership| !leadership.holds()) {
                return Looked::Failed("the lease is lost".to_owned());
            }
            if verdict.outcome == Outcome::Deny && !shared.may_deny() {
                return Looked::Failed("too many denials in the last minutes".to_owned());
            }
            match report::write_condition(&shared.workload, &object, &request, &verdict).await {
                Ok(()) => remember(shared, &request, &verdict),
                // NB-62: evaluate the current version again.
                Err(error) if error.is_conflict() => continue,
                Err(error) if error.is_not_found() => return Looked::Over,
                Err(error) => return Looked::Failed(error.to_string()),
            }
        }
        let now = facts::instant(shared.clock.now());
        shared.metrics.decided(&request.signer_name, &verdict);
        if writes {
            shared.metrics.took(request.created.map(|time| facts::since(time, now)).unwrap_or_default());
        }
        shared.contest(&request.uid, Some(verdict.reason));
        if is_new {
            log(shared, &request, &verdict);
            if !shared.is_dry_run {
                report::tell(&shared.workload, &request, &verdict, now).await;
                if verdict.reason == Reason::ContestedIdentity {
                    let name = request.node_name().unwrap_or_default();
                    for machine in named(name, &machines.machines, &config) {
                        report::tell_machine(&shared.management, machine, &request, &verdict, now).await;
                    }
                }
            }
        }
        return Looked::Decided(verdict);
    }
    Looked::Failed("too many conflicts while deciding the request".to_owned())
}

/// Decides a request. Rules that depend only on the request come first, so that a refusal by them costs no API calls.
async fn decide(shared: &Shared, request: &Request, path: SignerPath) -> (Verdict, Machines) {
    let mut found = Found {
        machines: Err("not read".to_owned()),
        node: Err("not read".to_owned()),
        has_bootstrap_ca: true,
        current: Err("not dialled".to_owned()),
        network: Net::Other,
    };
    let by_itself = evaluate_with(shared, request, path, &found);
    // These depend on the Machine and the Node, also those that compare with other requests for the name.
    let by_facts = |rule: &str| {
        matches!(rule, "NB-74" | "NB-75" | "NB-75a")
            || matches!(rule, "NB-88" | "NB-89" | "NB-90" | "NB-91" | "NB-92" | "NB-93" | "NB-94")
    };
    let fails_by_itself = by_itself.checks.iter().any(|check| {
        !by_facts(check.rule) && !check.is_alternative && matches!(check.result, CheckResult::Failed(_))
    });
    let Some(node) = request.node_name().filter(|_| !fails_by_itself) else {
        return (by_itself.verdict, Machines::default());
    };
    let config = shared.config.load_full();
    (found.machines, found.node) = tokio::join!(
        async { lookup::machines(&shared.management, &config).await.map_err(|error| error.to_string()) },
        lookup::node(&shared.workload, node),
    );
    // A bootstrap token puts the user in this group, and needs no bootstrap CA (NB-86). Another request for the name may
    // need it.
    let has_token = request.groups.iter().any(|group| group == "system:serviceaccounts");
    let may_need_ca = !has_token || shared.limits().need_bootstrap_ca(request);
    found.has_bootstrap_ca = match path {
        SignerPath::Client if may_need_ca => lookup::has_bootstrap_ca(&shared.workload, &config).await,
        SignerPath::Client | SignerPath::Serving => false,
    };
    let evaluation = evaluate_with(shared, request, path, &found);
    let needs_certificate = path == SignerPath::Serving && evaluation.verdict.outcome == Outcome::Retry;
    if !needs_certificate {
        return (evaluation.verdict, found.machines.unwrap_or_default());
    }
    // The kubelet's current certificate is read only if the Machine does not contain the names.
    found.current = current(shared, request, &found).await;
    if found.current.is_ok() {
        found.network = network(shared, node).await;
    }
    let evaluation = evaluate_with(shared, request, path, &found);
    (evaluation.verdict, found.machines.unwrap_or_default())
}

fn evaluate_with(shared: &Shared, request: &Request, path: SignerPath, found: &Found) -> Evaluation {
    let config = shared.config.load_full();
    // The counts of this moment (NB-75b).
    let (limits, grants) = (shared.limits(), shared.grants());
    evaluate(request, path, &cluster(shared, &limits, &grants, found), &config)
}

fn cluster<'a>(shared: &'a Shared, limits: &'a Limits, grants: &'a Grants, found: &'a Found) -> Cluster<'a> {
    Cluster {
        now: facts::instant(shared.clock.now()),
        machines: found.machines.as_ref().map(|found| &*found.machines).map_err(String::as_str),
        unreadable: found.machines.as_ref().map_or(&[], |found| &found.unreadable),
        pools: found.machines.as_ref().map_or(&[], |found| &found.pools),
        node: found.node.as_ref().map(Option::as_ref).map_err(String::as_str),
        has_bootstrap_ca: found.has_bootstrap_ca,
        current: match &found.current {
            Ok(leaf) => Current::Verified(leaf),
            Err(why) => Current::Unavailable(why),
        },
        network: match &found.network {
            Net::Other => Network::Other,
            Net::Sdn(subnet) => Network::OpenShiftSdn(subnet.as_ref()),
            Net::Unknown(why) => Network::Unknown(why),
        },
        limits,
        grants,
        api_server_names: &shared.api_server_names,
    }
}

/// Reads the current serving certificate of the node's kubelet (NB-110, NB-111).
async fn current(shared: &Shared, request: &Request, found: &Found) -> Result<Leaf, String> {
    let config = shared.config.load_full();
    let authority = lookup::kubelet_ca(&shared.workload, &config).await?;
    let target = {
        let (limits, grants) = (shared.limits(), shared.grants());
        dial_target(request, &cluster(shared, &limits, &grants, found), &config)?
    };
    let Some(_dialling) = shared.dial() else {
        return Err("too many kubelets are asked at once".to_owned());
    };
    kubelet::current(target, &authority).await
}

/// Reads the cluster network, and the node's egress addresses (NB-119).
async fn network(shared: &Shared, node: &str) -> Net {
    let networks = Resource::new("config.openshift.io", "v1", "networks");
    match shared.workload.find::<Value>(&networks, "cluster").await {
        Ok(Some(found)) if found.pointer("/status/networkType") == Some(&"OpenShiftSDN".into()) => {}
        Ok(_) => return Net::Other,
        Err(error) => return Net::Unknown(error.to_string()),
    }
    let subnets = Resource::new("network.openshift.io", "v1", "hostsubnets");
    match shared.workload.find::<Value>(&subnets, node).await {
        Ok(None) => Net::Sdn(None),
        Ok(Some(subnet)) => {
            let texts = |name: &str| {
                let list = subnet.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
                list.into_iter().filter_map(|text| text.as_str().map(str::to_owned)).collect::<Vec<_>>()
            };
            Net::Sdn(Some(HostSubnet {
                egress_ips: texts("egressIPs").iter().filter_map(|text| text.parse().ok()).collect(),
                egress_cidrs: texts("egressCIDRs").iter().filter_map(|text| text.parse().ok()).collect(),
            }))
        }
        Err(error) => Net::Unknown(error.to_string()),
    }
}

/// NB-94: recorded at once, before the watch reports the change.
fn remember(shared: &Shared, request: &Request, verdict: &Verdict) {
    if verdict.reason != Reason::ClientApproved {
        return;
    }
    if let Ok(content) = &request.content {
        shared.remember(Grant {
            uid: request.uid.clone(),
            common_name: content.common_name.clone(),
            key_hash: content.key_hash,
            at: Some(facts::instant(shared.clock.now())),
        });
    }
}

fn log(shared: &Shared, request: &Request, verdict: &Verdict) {
    let (csr, user, name) = (&request.name, &request.username, request.common_name());
    let (outcome, reason, rule, detail) = (verdict.outcome, verdict.reason, verdict.rule, &verdict.detail);
    let dry_run = shared.is_dry_run;
    tracing::info!(csr, user, name, %outcome, %reason, rule, detail, dry_run, "decided on a certificate request");
    if let Some(tell) = &shared.tell {
        tell(request, verdict);
    }
}
