//! The checks of a client's certificate request that all providers have in common, in order (AT-60 to AT-69).
//!
//! They come before any check of a provider. Whether the evidence proves anything is for the provider.

use std::collections::BTreeSet;

use portcullis_apimachinery::names::is_dns_subdomain;
use portcullis_pki::csr::{Csr, KeyKind};
use portcullis_pki::evidence::{AttestedRequest, Envelope, EnvelopeError, ProviderIdOids};

use crate::check::{Finding, Report, Run, failed, require};
use crate::reason::Reason;
use crate::signers::{self, Purpose};

const NODE: &str = "system:node:";
const NODES: &str = "system:nodes";
const AUTHENTICATED: &str = "system:authenticated";
const BOOTSTRAPPERS: &str = "system:bootstrappers";
const BOOTSTRAP_TOKEN: &str = "system:bootstrap:";
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

/// Requested extensions that are allowed, besides the provider ID: key usage, extended key usage, and basic constraints that
/// ask for no authority.
const USAGES: [&str; 2] = ["2.5.29.15", "2.5.29.37"];
const BASIC_CONSTRAINTS: &str = "2.5.29.19";
/// Alternative names have a check of their own (AT-69).
const ALTERNATIVE_NAMES: &str = "2.5.29.17";

/// A request for a client certificate, as the API server has it.
#[derive(Clone, Copy, Debug)]
pub struct ClientRequest<'a> {
    /// `spec.signerName`.
    pub signer_name: &'a str,
    /// `spec.username`: the requester, as the API server authenticated it.
    pub username: &'a str,
    /// `spec.groups`.
    pub groups: &'a [String],
    /// `spec.usages`.
    pub usages: &'a [String],
    /// `spec.request`, read; or why it cannot be read.
    pub content: Result<&'a AttestedRequest, &'a str>,
}

/// What the cluster allows.
#[derive(Clone, Debug, Default)]
pub struct Allowed {
    /// The providers that the cluster trusts (`authorizedAttestors`, AT-130).
    pub attestors: BTreeSet<String>,
    /// The service accounts that may ask for the first certificate of a node, as user names (NB-85).
    pub service_accounts: BTreeSet<String>,
    /// The group that bootstrap tokens for nodes have besides `system:bootstrappers`; none accepts no bootstrap tokens.
    pub token_group: Option<String>,
    /// The object identifiers of the extension with the provider ID.
    pub provider_id_oids: ProviderIdOids,
}

/// The machine that the provider names for the node (AT-70).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedMachine {
    /// The name of its node, as the provider knows it.
    pub node_name: String,
    /// The provider IDs that it may have: its own, or those of its pool.
    pub provider_ids: BTreeSet<String>,
    /// Whether it has its bootstrap data.
    pub is_bootstrapped: bool,
}

/// A request that passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The name of the node.
    pub node_name: String,
    /// Whether the node already has a certificate, and renews it.
    pub is_renewal: bool,
    /// The envelope of the evidence.
    pub envelope: Envelope,
}

/// The name of the node that a request is for; none if it is not for a node.
pub fn node_name(csr: &Csr) -> Option<&str> {
    csr.subject().common_name().ok()?.strip_prefix(NODE).filter(|name| is_dns_subdomain(name))
}

/// What is read from the request.
struct Read<'a> {
    csr: &'a Csr,
    node_name: &'a str,
    provider_id: String,
    envelope: Envelope,
}

/// Checks a request for a client certificate. `machine` is what the provider names for [`node_name`]; none if it knows none.
pub fn check(
    request: &ClientRequest<'_>,
    allowed: &Allowed,
    machine: Option<&NamedMachine>,
) -> Report<Claim> {
    let mut run = Run::default();
    let is_renewal = request.username.starts_with(NODE);
    run.step("AT-60", "the cluster trusts this attestor", Some(request), |request| {
        authorized(request, allowed)
    });
    let mut read = None;
    run.step("AT-61", "the request and its evidence are well-formed", Some(request), |request| {
        match well_formed(request, allowed) {
            Ok(found) => {
                let name = found.node_name.to_owned();
                read = Some(found);
                Ok(name)
            }
            Err(ending) => Err(ending),
        }
    });
    let read = read.as_ref();
    run.step("AT-62", "a Machine has the name and the provider ID", read, |read| {
        is_of_machine(read, machine)
    });
    run.step("AT-63", "the Machine has its bootstrap data", machine, |machine| {
        let detail = "the Machine has no bootstrap data yet";
        require(machine.is_bootstrapped, Reason::BootstrapNotReady, detail)?;
        Ok(String::new())
    });
    run.step(
        "AT-64",
        "the requester has the groups of a node or of a bootstrap identity",
        Some(request),
        |request| match is_renewal {
            true => groups_of_node(request),
            false => groups_of_bootstrap(request, allowed),
        },
    );
    run.step("AT-65", "the usages are those of a client", read, |read| usages(read.csr, request.usages));
    run.step("AT-66", "no other extension is requested", read, |read| extensions(read.csr, allowed));
    run.step("AT-67", "the common name is that of the requester, or of the machine", read, |read| {
        let expected = match (is_renewal, machine) {
            (true, _) => request.username.strip_prefix(NODE),
            (false, machine) => machine.map(|machine| &*machine.node_name),
        };
        let detail = format!("the common name is that of node {:?}", read.node_name);
        require(expected == Some(read.node_name), Reason::CommonNameMismatch, &detail)?;
        Ok(String::new())
    });
    run.step("AT-68", "the organization is the nodes' group", read, |read| {
        let organizations = read.csr.subject().organizations().unwrap_or_default();
        let detail = format!("the organizations are {organizations:?}");
        require(organizations == [NODES], Reason::WrongOrganization, &detail)?;
        let others = request.groups.iter().filter(|group| *group != AUTHENTICATED && *group != NODES);
        let detail = "the requester has other groups than the organization says";
        require(!is_renewal || others.count() == 0, Reason::WrongOrganization, detail)?;
        Ok(String::new())
    });
    run.step("AT-69", "no alternative names are requested", read, |read| {
        let has_names = read.csr.extensions().iter().any(|extension| extension.oid == ALTERNATIVE_NAMES);
        require(!has_names, Reason::NotKubeletClient, "the request has alternative names")?;
        Ok(String::new())
    });
    let claim = |read: &Read<'_>| Claim {
        node_name: read.node_name.to_owned(),
        is_renewal,
        envelope: read.envelope.clone(),
    };
    run.report(|| read.map(claim))
}

/// AT-60.
fn authorized(request: &ClientRequest<'_>, allowed: &Allowed) -> Finding {
    let reason = Reason::AttestorNotAuthorized;
    let Some((Purpose::Client, provider)) = signers::read(request.signer_name) else {
        return failed(reason, format!("{:?} is not a signer of clients", request.signer_name));
    };
    let detail = format!("the cluster does not trust the attestor {provider:?}");
    require(allowed.attestors.contains(provider), reason, &detail)?;
    // Evidence that is missing is malformed (AT-61).
    let evidence = request.content.ok().and_then(|content| content.evidence.as_ref());
    if let Some(evidence) = evidence {
        let detail = format!(
            "the evidence is of the attestor {:?}, the signer is that of {provider:?}",
            evidence.provider
        );
        require(evidence.provider == provider, reason, &detail)?;
    }
    Ok(provider.to_owned())
}

/// AT-61, with AT-42, AT-53 and AT-54.
fn well_formed<'a>(request: &ClientRequest<'a>, allowed: &Allowed) -> Result<Read<'a>, crate::check::Ending> {
    let reason = Reason::MalformedAttestation;
    let content = match request.content {
        Ok(content) => content,
        Err(why) => return failed(reason, why),
    };
    let csr = &content.csr;
    let Some(node_name) = node_name(csr) else {
        return failed(reason, "the common name must be system:node: and the name of a node");
    };
    require(csr.subject().other_attributes() == 0, reason, "the subject has other attributes")?;
    let is_strong = match csr.key() {
        KeyKind::P256 | KeyKind::P384 => true,
        KeyKind::Rsa { bits } => bits >= 2048,
        KeyKind::P521 | KeyKind::Ed25519 => false,
    };
    require(is_strong, reason, "the key must be on P-256 or P-384, or RSA of at least 2048 bits")?;
    let provider_id = match allowed.provider_id_oids.read(csr.extensions()) {
        Ok(Some(id)) => id,
        Ok(None) => return failed(reason, "the extension with the provider ID is missing"),
        Err(error) => return failed(reason, error.to_string()),
    };
    let Some(evidence) = &content.evidence else { return failed(reason, "the evidence is missing") };
    let envelope = match Envelope::read(&evidence.data) {
        Ok(envelope) => envelope,
        Err(error @ EnvelopeError::Version(_)) => {
            return failed(Reason::UnsupportedAttestationVersion, error.to_string());
        }
        Err(error) => return failed(reason, error.to_string()),
    };
    require(envelope.provider == evidence.provider, reason, "the evidence names two providers")?;
    let detail = "the evidence is for another certificate request";
    require(envelope.csr_digest == content.digest, Reason::EvidenceNotForThisRequest, detail)?;
    require(envelope.node_name == node_name, reason, "the evidence is for another node")?;
    require(envelope.provider_id == provider_id, reason, "the evidence is for another provider ID")?;
    Ok(Read { csr, node_name, provider_id, envelope })
}

/// AT-62.
fn is_of_machine(read: &Read<'_>, machine: Option<&NamedMachine>) -> Finding {
    let Some(machine) = machine else {
        return failed(Reason::MachineNotFound, format!("there is no Machine for node {:?}", read.node_name));
    };
    let detail = format!("{:?} is not a provider ID of the Machine", read.provider_id);
    require(machine.provider_ids.contains(&read.provider_id), Reason::ProviderIDMismatch, &detail)?;
    Ok(read.provider_id.clone())
}

/// AT-64, for renewals.
fn groups_of_node(request: &ClientRequest<'_>) -> Finding {
    let has = |wanted: &str| request.groups.iter().any(|group| group == wanted);
    let detail = format!("the groups are {:?}", request.groups);
    require(has(NODES) && has(AUTHENTICATED), Reason::WrongRequesterGroups, &detail)?;
    Ok("renewal".to_owned())
}

/// AT-64, for first requests: a service account, or a bootstrap token.
fn groups_of_bootstrap(request: &ClientRequest<'_>, allowed: &Allowed) -> Finding {
    let groups: BTreeSet<&str> = request.groups.iter().map(String::as_str).collect();
    let user = request.username;
    let is_account = || {
        let (namespace, _) = user.strip_prefix(SERVICE_ACCOUNT)?.split_once(':')?;
        let of_namespace = format!("system:serviceaccounts:{namespace}");
        let expected = BTreeSet::from(["system:serviceaccounts", AUTHENTICATED, &of_namespace]);
        Some(allowed.service_accounts.contains(user) && groups == expected)
    };
    let is_token = || {
        let group = allowed.token_group.as_deref()?;
        user.strip_prefix(BOOTSTRAP_TOKEN)?;
        let is_known = |group: &&str| {
            *group == AUTHENTICATED || *group == BOOTSTRAPPERS || group.starts_with("system:bootstrappers:")
        };
        let needed = [BOOTSTRAPPERS, AUTHENTICATED, group];
        Some(groups.iter().all(is_known) && needed.into_iter().all(|group| groups.contains(group)))
    };
    let is_accepted = is_account().unwrap_or_default() || is_token().unwrap_or_default();
    let detail = format!("{user:?} with the groups {groups:?} is not a bootstrap identity");
    require(is_accepted, Reason::WrongRequesterGroups, &detail)?;
    Ok("first request".to_owned())
}

/// AT-65: the exact usages of AT-32.
fn usages(csr: &Csr, usages: &[String]) -> Finding {
    let mut found: BTreeSet<&str> = usages.iter().map(String::as_str).collect();
    if matches!(csr.key(), KeyKind::Rsa { .. }) {
        found.remove("key encipherment");
    }
    let is_exact = found == BTreeSet::from(["client auth", "digital signature"]);
    require(is_exact, Reason::WrongUsages, &format!("the usages are {usages:?}"))?;
    Ok(String::new())
}

/// AT-66.
fn extensions(csr: &Csr, allowed: &Allowed) -> Finding {
    let is_allowed = |extension: &portcullis_pki::csr::RequestedExtension| {
        let oid = extension.oid.as_str();
        USAGES.contains(&oid)
            || oid == ALTERNATIVE_NAMES
            || allowed.provider_id_oids.contains(oid)
            || (oid == BASIC_CONSTRAINTS && !extension.asks_for_authority())
    };
    match csr.extensions().iter().find(|extension| !is_allowed(extension)) {
        None => Ok(String::new()),
        Some(other) => failed(Reason::ForbiddenExtension, format!("the extension {}", other.oid)),
    }
}
