//! Evaluates one request for a serving certificate: the node proved its machine, and every name that it asks for is one of
//! that machine (AT-170 to AT-175, NB-100 to NB-119).

use std::sync::Arc;
use std::time::SystemTime;

use portcullis_attestation::config::Serving;
use portcullis_attestation::machine::Machine;
use portcullis_attestation::serving::ServingCase;
use portcullis_attestation::time::instant;
use portcullis_attestation::{Reason, Refusal};
use portcullis_pki::{AttestedUsage, CertificateAuthority, Csr};
use portcullis_policy::approval::machine::{
    Address, AddressKind, Cluster, Config, Current, Grants, Limits, Machine as Api, MachineKind, Network,
    Outcome as Verdict, Request, SignerPath, evaluate as rules,
};
use serde_json::Value;

use super::looked::{Looked, failed, issued, unavailable};
use super::metrics::Outcome;
use super::report::{self, Why};
use super::shared::{Settings, Shared};
use super::{machines, records::Versioned};
use crate::approver::facts::pkcs10;
use crate::approver::lookup::Machines;
use crate::attestation::{Kind, Stored};
use crate::call::REQUESTS;
use crate::lease::Leadership;

/// How the API server reports the certificate of the requester (AN-45).
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";
const NODE: &str = "system:node:";
/// How often a request is judged in one evaluation: before the approval, and before the certificate.
const ROUNDS: u32 = 3;
/// The label of metrics.
const PHASE: &str = "serving";

/// A request, read in both forms that rules take.
struct Asked {
    stored: Stored,
    request: Request,
}

/// Evaluates a request. It is judged again after it was approved, before it is signed (AT-82).
pub(super) async fn look(shared: &Arc<Shared>, name: &str, leadership: Option<&Leadership>) -> Looked {
    for _ in 0..ROUNDS {
        let asked = match read(shared, name).await {
            Ok(Some(asked)) => asked,
            Ok(None) => return Looked::Over,
            Err(why) => return Looked::Failed(why),
        };
        let stored = &asked.stored;
        let settings = shared.settings.load_full();
        let signer = match (stored.kind(), settings.config.serving, &shared.serving_authority) {
            (Some(Kind::KubeletServing), Serving::Approve | Serving::Sign, _) => None,
            (Some(Kind::Serving(provider)), Serving::Sign, Some(authority)) => {
                Some((provider.to_owned(), Arc::clone(authority)))
            }
            _ => return Looked::Over,
        };
        if stored.is_decided() || (signer.is_none() && stored.has("Approved")) {
            return Looked::Over;
        }
        if leadership.is_some_and(|leadership| !leadership.holds()) {
            return Looked::Failed("the lease is lost".to_owned());
        }
        let provider = signer.as_ref().map(|(provider, _)| provider.as_str());
        let judged = judge(shared, &settings, &asked, provider).await;
        let (machine, record, detail) = match judged {
            Judged::Good { machine, record, detail } => (machine, record, detail),
            Judged::Wait { reason, rule, detail } => {
                count(shared, provider, Outcome::Waiting(reason));
                return Looked::Waiting(format!("{reason}: {rule}: {detail}"));
            }
            Judged::Bad { machine, reason, rule, detail } => {
                let why = Why { reason, rule, detail: &detail };
                if let Err(error) = report::refuse(&shared.workload, stored, why).await {
                    return failed(&error);
                }
                let user = &stored.spec.username;
                tracing::warn!(
                    csr = name,
                    user,
                    reason,
                    rule,
                    detail,
                    "refused a request for a serving certificate"
                );
                count(shared, provider, Outcome::Refused(reason));
                let (to, now) = (&shared.management, shared.clock.now());
                report::tell(&shared.workload, to, stored, machine.as_deref(), why, now).await;
                return Looked::Over;
            }
        };
        if !stored.has("Approved") {
            let node = &machine.named.node_name;
            let message = format!("Portcullis verified that node {node} is attested; {detail}");
            if let Err(error) = report::approve(&shared.workload, stored, &message).await {
                return failed(&error);
            }
            tracing::info!(csr = name, node, "approved a serving certificate");
            count(shared, provider, Outcome::Approved);
            match signer {
                Some(_) => continue,
                None => return Looked::Over,
            }
        }
        let Some((provider, authority)) = signer else { return Looked::Over };
        let longest = settings.config.longest(&provider);
        let certificate = match sign(&authority, stored, longest, shared.clock.now()) {
            Ok(certificate) => certificate,
            Err(why) => return Looked::Failed(why),
        };
        return match report::issue(&shared.workload, stored, &certificate).await {
            Ok(()) => {
                shared.metrics.issued(&stored.spec.signer_name, record.record.key_class);
                count(shared, Some(&provider), Outcome::Issued);
                tracing::info!(csr = name, node = machine.named.node_name, "issued a serving certificate");
                Looked::Over
            }
            Err(error) => failed(&error),
        };
    }
    Looked::Failed("the request changes all the time".to_owned())
}

async fn read(shared: &Shared, name: &str) -> Result<Option<Asked>, String> {
    let object: Option<Value> =
        shared.workload.find(&REQUESTS, name).await.map_err(|error| error.to_string())?;
    let Some(object) = object else { return Ok(None) };
    let parsed = tokio::task::spawn_blocking(move || {
        let request = Request::from_json(&object.to_string(), pkcs10).map_err(|error| error.to_string())?;
        let stored: Stored = serde_json::from_value(object).map_err(|error| error.to_string())?;
        Ok::<_, String>(Asked { stored, request })
    });
    parsed.await.map_err(|error| error.to_string())?.map(Some)
}

fn sign(
    authority: &CertificateAuthority,
    stored: &Stored,
    longest: std::time::Duration,
    now: SystemTime,
) -> Result<String, String> {
    let pem = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, &stored.spec.request)
        .map_err(|error| error.to_string())?;
    let csr = Csr::from_pem(&pem).map_err(|error| error.to_string())?;
    issued(authority, stored, &csr, &AttestedUsage::Server, longest, now).map(|(certificate, _)| certificate)
}

/// What was decided about a request.
enum Judged {
    Good {
        machine: Box<Machine>,
        record: Box<Versioned>,
        detail: String,
    },
    /// Something is missing that may come.
    Wait {
        reason: &'static str,
        rule: &'static str,
        detail: String,
    },
    Bad {
        machine: Option<Box<Machine>>,
        reason: &'static str,
        rule: &'static str,
        detail: String,
    },
}

impl Judged {
    /// What only says that the node is not one of ours is left to others, who may approve for the signer of kubelets.
    fn refused(refusal: Refusal, machine: Option<Box<Machine>>, is_ours: bool) -> Self {
        let Refusal { reason, rule, detail } = refusal;
        let is_transient = reason.is_transient() || !is_ours;
        let reason = reason.as_str();
        if is_transient {
            Self::Wait { reason, rule, detail }
        } else {
            Self::Bad { machine, reason, rule, detail }
        }
    }
}

/// The rules about requests of kubelets first, because only they say which node asks; then who asks; then the names.
async fn judge(shared: &Shared, settings: &Settings, asked: &Asked, signer: Option<&str>) -> Judged {
    let missing = |reason: Reason, detail: String| Refusal { reason, rule: "AT-174", detail };
    let is_for_us = signer.is_some();
    let user = &asked.stored.spec.username;
    let Some(node_name) = user.strip_prefix(NODE) else {
        let detail = format!("{user:?} is no node");
        return Judged::refused(missing(Reason::NotAttested, detail), None, is_for_us);
    };
    let machine = match machines::of_node(shared, settings, node_name, true).await {
        Ok(Some(machine)) => machine,
        Ok(None) => {
            let detail = format!("there is no Machine for node {node_name:?}");
            return Judged::refused(missing(Reason::MachineNotFound, detail), None, is_for_us);
        }
        Err(error) => {
            return Judged::refused(missing(Reason::MachineNotFound, error.to_string()), None, is_for_us);
        }
    };
    let machine = Box::new(machine);
    let record = match shared.records.find(&machine).await {
        Ok(Some(record)) => record,
        Ok(None) => {
            let detail = "the machine has no identity record".to_owned();
            return Judged::refused(missing(Reason::NotAttested, detail), Some(machine), is_for_us);
        }
        Err(error) => return Judged::refused(unavailable(&error), None, is_for_us),
    };
    let none = Vec::new();
    let case = ServingCase {
        signer,
        record: Some(&record.record),
        credentials: asked.stored.spec.extra.get(CREDENTIAL_ID).unwrap_or(&none),
        now: shared.clock.now(),
    };
    let refusal = match settings.rules.providers.get(&record.record.provider) {
        Some(provider) => provider.verify_serving(&case).outcome.err(),
        None => {
            let detail = format!("the cluster does not trust the attestor {:?}", record.record.provider);
            Some(missing(Reason::AttestorNotAuthorized, detail))
        }
    };
    if let Some(refusal) = refusal {
        // Whoever asks as an attested node, and is not it, is turned away whoever else may approve.
        let is_impostor = matches!(refusal.reason, Reason::NotAttested | Reason::IdentityRevoked);
        return Judged::refused(refusal, Some(machine), is_for_us || is_impostor);
    }
    let verdict = names(shared, settings, asked, &machine).await;
    match verdict.outcome {
        Verdict::Approve => Judged::Good { machine, record: Box::new(record), detail: verdict.detail },
        _ if verdict.is_forged => {
            let (reason, rule, detail) = (verdict.reason.as_str(), verdict.rule, verdict.detail);
            Judged::Bad { machine: Some(machine), reason, rule, detail }
        }
        _ => Judged::Wait { reason: verdict.reason.as_str(), rule: verdict.rule, detail: verdict.detail },
    }
}

/// Compares a request with the machine, by the rules of the machine approver. The kubelet is not asked which certificate
/// it has now: the names must be those of the machine (AT-175).
async fn names(
    shared: &Shared,
    settings: &Settings,
    asked: &Asked,
    machine: &Machine,
) -> portcullis_policy::approval::machine::Verdict {
    let config = settings.machine_apis.clone().unwrap_or_default();
    let found = match (&settings.machine_apis, &machine.owner) {
        (Some(config), Some(_)) => {
            machines::list(shared, config, false).await.map_err(|error| error.to_string())
        }
        _ => Ok(Arc::new(Machines { machines: vec![listed(machine, &config)], ..Machines::default() })),
    };
    let found = found.as_ref();
    let (limits, grants) = (Limits::default(), Grants::default());
    let cluster = Cluster {
        now: instant(shared.clock.now()),
        machines: found.map(|found| &*found.machines).map_err(String::as_str),
        unreadable: found.map_or(&[], |found| &found.unreadable),
        pools: found.map_or(&[], |found| &found.pools),
        node: Ok(None),
        has_bootstrap_ca: false,
        current: Current::Unavailable("the names of an attested node are those of its machine"),
        network: Network::Other,
        limits: &limits,
        grants: &grants,
        api_server_names: &[],
    };
    rules(&asked.request, SignerPath::Serving, &cluster, &config).verdict
}

/// A machine of an inventory, as the rules take it: its addresses are those of a Machine.
fn listed(machine: &Machine, config: &Config) -> Api {
    let group = config.machine_apis.first().map_or("", |api| api.group.as_str());
    let kind = MachineKind::ALL.into_iter().find(|kind| kind.group() == group);
    let address = |text: &String| Address {
        kind: match text.parse::<std::net::IpAddr>() {
            Ok(_) => AddressKind::InternalIp,
            Err(_) => AddressKind::InternalDns,
        },
        value: text.clone(),
    };
    Api {
        kind: kind.unwrap_or(MachineKind::OpenShiftV1Beta1),
        name: machine.named.node_name.clone(),
        namespace: config.machine_namespace.clone().unwrap_or_default(),
        uid: machine.uid.clone(),
        labels: Vec::new(),
        created: Some(instant(SystemTime::UNIX_EPOCH)),
        is_deleting: false,
        cluster_name: config.cluster_name.clone().unwrap_or_default(),
        provider_id: machine.named.provider_ids.first().cloned(),
        node_ref: Some(machine.named.node_name.clone()),
        addresses: machine.addresses.iter().map(address).collect(),
        phase: String::new(),
        is_bootstrapped: true,
        has_infrastructure: true,
        is_ready: true,
    }
}

fn count(shared: &Shared, provider: Option<&str>, outcome: Outcome) {
    shared.metrics.evaluated(provider.unwrap_or("kubelet-serving"), PHASE, outcome);
}
