//! The configuration of attestation, as an operator writes it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use portcullis_pki::evidence::ProviderIdOids;
use portcullis_pki::tpm::endorsement::Roots;
use serde::Deserialize;

use crate::device::Device;
use crate::enrolled::EnrolledKey;
use crate::hex::unhex;
use crate::insecure::Insecure;
use crate::judge::Rules;
use crate::key_class::KeyClass;
use crate::provider::Provider;
use crate::request::Allowed;
use crate::signers::{self, Purpose};
use crate::token_lifetime::Times;
use crate::tpm::{Accepted, PcrMode, PcrPolicy, Policy, TpmProvider, Trust};

/// The lifetimes of certificates, unless configured (AT-84).
const DAY: u64 = 24 * 60 * 60;
const YEAR: u64 = 365 * DAY;
/// The highest PCR.
const MAX_PCR: u32 = 23;

/// The configuration of a cluster.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// The attestors that the cluster trusts: `tpm`, `challenge`, `insecure` (AT-130).
    pub authorized_attestors: Vec<String>,
    /// Who may ask for the first certificate of a node.
    #[serde(default)]
    pub bootstrap: Bootstrap,
    /// The object identifiers of the extension with the provider ID; the default is that of the proposal (AT-40).
    #[serde(default, rename = "providerIDOIDs")]
    pub provider_id_oids: Vec<String>,
    /// The longest lifetime of certificates by attestor, in seconds; by default a day, and a year for `insecure`.
    #[serde(default)]
    pub certificate_seconds: BTreeMap<String, u64>,
    /// What is asked of TPMs.
    #[serde(default)]
    pub tpm: Tpm,
    /// How serving certificates of nodes are handled.
    #[serde(default)]
    pub serving: Serving,
    /// Whether the bindings by which a bootstrap token or a node alone yields a certificate are removed, once attestation
    /// works (AT-131, AT-132).
    #[serde(default)]
    pub remove_auto_approval: bool,
    /// Whether the names of the signers are written into the status of the infrastructure cluster (AT-90). Needs the
    /// namespace and the name of the cluster in `machines`.
    #[serde(default)]
    pub publish_signers: bool,
    /// The lifetimes of the bootstrap tokens of Machines and MachinePools; none leaves tokens alone (AT-142).
    #[serde(default)]
    pub tokens: Option<Tokens>,
    /// Where the machines are.
    pub machines: Machines,
}

/// The lifetimes of bootstrap tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Tokens {
    /// How long a token lives when it is created or extended, in seconds.
    pub seconds: u64,
    /// How long the token of a Machine is extended at most, from the creation of the Machine, in seconds (AT-144).
    pub longest_seconds: u64,
}

impl Default for Tokens {
    /// Those of [`Times`].
    fn default() -> Self {
        let Times { lifetime, longest } = Times::default();
        Self { seconds: lifetime.as_secs(), longest_seconds: longest.as_secs() }
    }
}

impl Tokens {
    /// The times, for the rules.
    pub fn times(&self) -> Times {
        Times {
            lifetime: Duration::from_secs(self.seconds),
            longest: Duration::from_secs(self.longest_seconds),
        }
    }
}

/// How serving certificates of attested nodes are handled (AT-172).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Serving {
    /// Requests of kubelets, for the signer `kubernetes.io/kubelet-serving`, are approved; the cluster's own signer signs.
    #[default]
    Approve,
    /// In addition, requests for the serving signers of the attestors are approved and signed.
    Sign,
    /// Not at all.
    Off,
}

/// Where the machines are: in an inventory, in Machine APIs, or both. With both, the inventory has the keys of Machines.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Machines {
    /// A file with an inventory.
    pub inventory: Option<String>,
    /// The groups of Machine APIs: `cluster.x-k8s.io`, `machine.openshift.io`.
    pub apis: Vec<String>,
    /// The namespace of the Machines; by default all.
    pub namespace: Option<String>,
    /// The name of the cluster in the Cluster API, if the management cluster has several.
    pub cluster_name: Option<String>,
}

/// Who may ask for the first certificate of a node.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Bootstrap {
    /// Service accounts, as user names: `system:serviceaccount:NAMESPACE:NAME`.
    pub service_accounts: BTreeSet<String>,
    /// The group of bootstrap tokens for nodes; an empty text accepts no tokens.
    pub token_group: String,
}

impl Default for Bootstrap {
    /// As kubeadm has it.
    fn default() -> Self {
        Self {
            service_accounts: BTreeSet::new(),
            token_group: "system:bootstrappers:kubeadm:default-node-token".to_owned(),
        }
    }
}

/// What is asked of TPMs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Tpm {
    /// Which endorsement keys are trusted: `cert`, `hash`, `cert-and-hash` or `platform` (AT-112).
    pub trust: String,
    /// A PEM file with the roots of manufacturers.
    pub roots: Option<String>,
    /// A PEM file with intermediate certificates.
    pub intermediates: Option<String>,
    /// The lowest class of keys: `K1`, `K2` or `K3`; by default `K2` (AT-117).
    pub minimum_key_class: Option<String>,
    /// The digest of the PCR policy of keys of class K3, in hexadecimal digits.
    pub key_policy: Option<String>,
    /// Whether the TPM must state that it created the key.
    pub require_creation: bool,
    /// What is asked of the PCRs.
    pub pcrs: Pcrs,
}

/// What is asked of the PCRs (AT-119.14).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Pcrs {
    /// `none`, `record` or `enforce`.
    pub mode: Option<String>,
    /// The PCRs of the SHA-256 bank that a quote has.
    pub selection: BTreeSet<u32>,
    /// The accepted values of each PCR, in hexadecimal digits.
    pub values: BTreeMap<u32, Vec<String>>,
    /// The accepted digests of all values of the selection, in hexadecimal digits.
    pub composites: Vec<String>,
}

impl Config {
    /// The rules. `read` reads a file that the configuration names.
    ///
    /// # Errors
    /// Which field is invalid, and why.
    pub fn rules(&self, read: impl Fn(&str) -> Result<Vec<u8>, String>) -> Result<Rules, String> {
        if self.authorized_attestors.is_empty() {
            return Err("authorizedAttestors is empty: no node could get a certificate (AT-132)".to_owned());
        }
        let mut providers: BTreeMap<String, Arc<dyn Provider>> = BTreeMap::new();
        for name in &self.authorized_attestors {
            let provider: Arc<dyn Provider> = match name.as_str() {
                "tpm" => Arc::new(TpmProvider::new(self.tpm.policy(&read)?)),
                "challenge" => Arc::new(EnrolledKey),
                "insecure" => Arc::new(Insecure),
                #[cfg(feature = "null-attestor")]
                "null" => Arc::new(crate::null::Null),
                _ => {
                    return Err(format!(
                        "authorizedAttestors: {name:?} is not an attestor; expected tpm, challenge or insecure"
                    ));
                }
            };
            providers.insert(name.clone(), provider);
        }
        let is_cluster_named = self.machines.namespace.is_some() && self.machines.cluster_name.is_some();
        if self.publish_signers && !is_cluster_named {
            return Err("publishSigners needs machines.namespace and machines.clusterName".to_owned());
        }
        if self.tokens.is_some_and(|tokens| tokens.seconds < 60) {
            return Err("tokens.seconds: must be at least 60".to_owned());
        }
        let unknown = self.certificate_seconds.keys().find(|name| !providers.contains_key(*name));
        if let Some(name) = unknown {
            return Err(format!("certificateSeconds: {name:?} is not in authorizedAttestors"));
        }
        let oids = self.provider_id_oids.iter().map(String::as_str);
        Ok(Rules {
            allowed: Allowed {
                attestors: providers.keys().cloned().collect(),
                service_accounts: self.bootstrap.service_accounts.clone(),
                token_group: Some(self.bootstrap.token_group.clone()).filter(|group| !group.is_empty()),
                provider_id_oids: match self.provider_id_oids.is_empty() {
                    true => ProviderIdOids::default(),
                    false => {
                        ProviderIdOids::parse(oids).map_err(|error| format!("providerIDOIDs: {error}"))?
                    }
                },
            },
            providers,
        })
    }

    /// The names of the signers of client and serving certificates, as they are published (AT-90 to AT-95). The attestor
    /// `insecure` has no signer of serving certificates.
    pub fn published_signers(&self) -> (String, Option<String>) {
        let attestor = self.authorized_attestors.first().map(String::as_str).unwrap_or_default();
        let serving = match self.serving {
            _ if attestor == "insecure" => None,
            Serving::Sign => Some(signers::signer(Purpose::Serving, attestor)),
            Serving::Approve => Some(signers::KUBELET_SERVING.to_owned()),
            Serving::Off => None,
        };
        (signers::signer(Purpose::Client, attestor), serving)
    }

    /// The longest lifetime of the certificates of an attestor (AT-84).
    pub fn longest(&self, attestor: &str) -> Duration {
        let usual = if attestor == "insecure" { YEAR } else { DAY };
        Duration::from_secs(self.certificate_seconds.get(attestor).copied().unwrap_or(usual))
    }
}

impl Tpm {
    fn policy(&self, read: &impl Fn(&str) -> Result<Vec<u8>, String>) -> Result<Policy, String> {
        let roots = || {
            let file = self.roots.as_deref().ok_or("tpm.roots: missing, needed for certificates")?;
            let roots = Roots::from_pem(&read(file)?).map_err(|error| format!("tpm.roots: {error}"))?;
            Ok::<_, String>(match self.intermediates.as_deref() {
                Some(file) => roots.with_intermediates(&read(file)?),
                None => roots,
            })
        };
        let trust = match self.trust.as_str() {
            "cert" => Trust::Certificate(roots()?),
            "hash" => Trust::Digest,
            "cert-and-hash" => Trust::CertificateAndDigest(roots()?),
            "platform" => Trust::Platform,
            other => {
                return Err(format!("tpm.trust: {other:?}; expected cert, hash, cert-and-hash or platform"));
            }
        };
        let class = self.minimum_key_class.as_deref().unwrap_or("K2");
        let minimum = KeyClass::named(class).filter(|class| *class > KeyClass::K0);
        Ok(Policy {
            trust,
            minimum: minimum
                .ok_or_else(|| format!("tpm.minimumKeyClass: {class:?}; expected K1, K2 or K3"))?,
            key_policy: digits("tpm.keyPolicy", self.key_policy.as_deref().unwrap_or_default())?,
            requires_creation: self.require_creation,
            pcrs: self.pcrs.policy()?,
        })
    }
}

impl Pcrs {
    fn policy(&self) -> Result<PcrPolicy, String> {
        let mode = match self.mode.as_deref() {
            None | Some("none") => PcrMode::None,
            Some("record") => PcrMode::Record,
            Some("enforce") => PcrMode::Enforce,
            Some(other) => return Err(format!("tpm.pcrs.mode: {other:?}; expected none, record or enforce")),
        };
        if self.selection.iter().chain(self.values.keys()).any(|index| *index > MAX_PCR) {
            return Err(format!("tpm.pcrs: a PCR above {MAX_PCR}"));
        }
        if mode != PcrMode::None && self.selection.is_empty() {
            return Err("tpm.pcrs.selection: missing".to_owned());
        }
        if mode == PcrMode::Enforce && self.values.is_empty() && self.composites.is_empty() {
            return Err("tpm.pcrs: mode enforce needs values or composites".to_owned());
        }
        let values = self.values.iter().map(|(index, values)| {
            let values = values.iter().map(|value| digest("tpm.pcrs.values", value));
            Ok((*index, values.collect::<Result<_, String>>()?))
        });
        let composites = self.composites.iter().map(|value| digest("tpm.pcrs.composites", value));
        Ok(PcrPolicy {
            mode,
            selection: self.selection.clone(),
            accepted: Accepted {
                values: values.collect::<Result<_, String>>()?,
                composites: composites.collect::<Result<_, String>>()?,
            },
        })
    }
}

fn digits(field: &str, text: &str) -> Result<Vec<u8>, String> {
    unhex(text).ok_or_else(|| format!("{field}: {text:?} is not hexadecimal"))
}

/// A SHA-256 digest, with or without its prefix.
fn digest(field: &str, text: &str) -> Result<Vec<u8>, String> {
    if let Some(device) = Device::parse(text) {
        return Ok(device.0.to_vec());
    }
    digits(field, text).and_then(|bytes| match bytes.len() {
        32 => Ok(bytes),
        _ => Err(format!("{field}: {text:?} does not have 64 hexadecimal digits")),
    })
}
