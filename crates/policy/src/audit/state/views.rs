//! The fields of objects that the audit reads and decisions do not.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};

use crate::objects::decode::{List, StringMap, Text, or_default};
use crate::objects::meta::Metadata;

/// What a pod or a pod template may do on its node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct PodView<'a> {
    #[serde(deserialize_with = "or_default")]
    pub(super) spec: SpecView<'a>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct SpecView<'a> {
    #[serde(rename = "hostPID", deserialize_with = "or_default")]
    pub(super) host_pid: bool,
    #[serde(deserialize_with = "or_default")]
    pub(super) host_network: bool,
    pub(super) automount_service_account_token: Option<bool>,
    pub(super) node_selector: StringMap<'a>,
    #[serde(deserialize_with = "or_default")]
    pub(super) affinity: Affinity<'a>,
    pub(super) tolerations: List<Toleration<'a>>,
    pub(super) init_containers: List<ContainerView<'a>>,
    pub(super) containers: List<ContainerView<'a>>,
    pub(super) ephemeral_containers: List<ContainerView<'a>>,
    pub(super) volumes: List<VolumeView<'a>>,
}

impl<'a> SpecView<'a> {
    /// All containers: init, main, then ephemeral.
    pub(super) fn containers(&self) -> impl Iterator<Item = &ContainerView<'a>> {
        self.init_containers.iter().chain(&self.containers).chain(&self.ephemeral_containers)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct ContainerView<'a> {
    pub(super) image: Text<'a>,
    pub(super) command: List<Text<'a>>,
    pub(super) args: List<Text<'a>>,
    /// Set by archives, which keep only a part of a command line (AU-20).
    #[serde(deserialize_with = "or_default")]
    pub(super) command_is_reduced: bool,
    #[serde(deserialize_with = "or_default")]
    pub(super) security_context: SecurityContext<'a>,
    pub(super) volume_mounts: List<Mount<'a>>,
}

impl<'a> ContainerView<'a> {
    /// The words of the command line.
    pub(super) fn words(&self) -> impl Iterator<Item = &Text<'a>> {
        self.command.iter().chain(&self.args)
    }

    /// The program: the last part of the path in the first word (AU-15).
    pub(super) fn program(&self) -> &str {
        let first = self.words().next().map(|word| &**word).unwrap_or_default();
        first.rsplit('/').next().unwrap_or_default()
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct SecurityContext<'a> {
    #[serde(deserialize_with = "or_default")]
    pub(super) privileged: bool,
    #[serde(deserialize_with = "or_default")]
    pub(super) capabilities: Capabilities<'a>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Capabilities<'a> {
    pub(super) add: List<Text<'a>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct Mount<'a> {
    pub(super) name: Text<'a>,
    pub(super) sub_path: Text<'a>,
    #[serde(deserialize_with = "or_default")]
    pub(super) read_only: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct VolumeView<'a> {
    pub(super) name: Text<'a>,
    pub(super) host_path: Option<HostPath<'a>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct HostPath<'a> {
    pub(super) path: Text<'a>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct Affinity<'a> {
    #[serde(deserialize_with = "or_default")]
    pub(super) node_affinity: NodeAffinity<'a>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct NodeAffinity<'a> {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub(super) required: Option<NodeSelector<'a>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct NodeSelector<'a> {
    pub(super) node_selector_terms: List<NodeSelectorTerm<'a>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct NodeSelectorTerm<'a> {
    pub(super) match_expressions: List<Requirement<'a>>,
    pub(super) match_fields: List<Requirement<'a>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Requirement<'a> {
    pub(super) key: Text<'a>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Toleration<'a> {
    pub(super) key: Text<'a>,
    pub(super) operator: Text<'a>,
    pub(super) value: Text<'a>,
    pub(super) effect: Text<'a>,
}

/// A Node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct NodeView<'a> {
    #[serde(deserialize_with = "or_default")]
    pub(super) spec: NodeSpec<'a>,
    #[serde(deserialize_with = "or_default")]
    pub(super) status: NodeStatus<'a>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct NodeStatus<'a> {
    #[serde(deserialize_with = "or_default")]
    pub(super) node_info: NodeInfo<'a>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct NodeInfo<'a> {
    pub(super) kubelet_version: Text<'a>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct NodeSpec<'a> {
    pub(super) taints: List<Taint<'a>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Taint<'a> {
    pub(super) key: Text<'a>,
    pub(super) value: Text<'a>,
    pub(super) effect: Text<'a>,
}

/// A ServiceAccount.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct AccountView {
    pub(super) automount_service_account_token: Option<bool>,
}

/// A workload with templates of pods. `P` is the view of the template.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a, P: Deserialize<'de> + Default"))]
pub(super) struct Workload<'a, P> {
    #[serde(deserialize_with = "or_default")]
    pub(super) metadata: Metadata<'a>,
    #[serde(deserialize_with = "or_default")]
    pub(super) spec: WorkloadSpec<P>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "P: Deserialize<'de> + Default"))]
pub(super) struct WorkloadSpec<P> {
    pub(super) replicas: Option<i64>,
    pub(super) parallelism: Option<i64>,
    #[serde(deserialize_with = "or_default")]
    pub(super) suspend: bool,
    #[serde(deserialize_with = "or_default")]
    pub(super) template: P,
    /// The Jobs of a CronJob.
    pub(super) job_template: Option<JobTemplate<P>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "P: Deserialize<'de> + Default"))]
pub(super) struct JobTemplate<P> {
    #[serde(deserialize_with = "or_default")]
    pub(super) spec: JobSpec<P>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "P: Deserialize<'de> + Default"))]
pub(super) struct JobSpec<P> {
    #[serde(deserialize_with = "or_default")]
    pub(super) template: P,
}

impl<P> WorkloadSpec<P> {
    /// The template of the pods.
    pub(super) fn template(&self) -> &P {
        self.job_template.as_ref().map_or(&self.template, |job| &job.spec.template)
    }

    /// Whether no pods are wanted: scaled to zero, or suspended.
    pub(super) fn is_idle(&self) -> bool {
        self.suspend || self.replicas == Some(0) || self.parallelism == Some(0)
    }
}

/// A ConfigMap, without its values: only the configuration of kubelets is read (AU-13).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct ConfigMapView<'a> {
    #[serde(deserialize_with = "or_default")]
    pub(super) metadata: Metadata<'a>,
    pub(super) data: KubeletEntry<'a>,
}

/// The entry of a ConfigMap with the configuration of kubelets; empty where absent.
#[derive(Clone, Debug, Default)]
pub(super) struct KubeletEntry<'a> {
    pub(super) kubelet: Text<'a>,
}

/// The configuration file of an API server's authorizers. It is no object: it has no name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct AuthorizationView<'a> {
    pub(super) authorizers: List<AuthorizerView<'a>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct AuthorizerView<'a> {
    /// The mode.
    #[serde(rename = "type")]
    pub(super) kind: Text<'a>,
}

/// A CertificateSigningRequest.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct CertificateRequestView<'a> {
    #[serde(deserialize_with = "or_default")]
    pub(super) metadata: Metadata<'a>,
    #[serde(deserialize_with = "or_default")]
    pub(super) spec: CertificateRequestSpec<'a>,
    #[serde(deserialize_with = "or_default")]
    pub(super) status: CertificateRequestStatus<'a>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct CertificateRequestSpec<'a> {
    /// The PKCS#10 request: PEM, in base64.
    pub(super) request: Text<'a>,
    pub(super) signer_name: Text<'a>,
    /// What archives have in place of the request (AU-20).
    pub(super) requested: Option<Requested>,
}

/// Whom a request is for.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Requested {
    pub(super) common_name: String,
    pub(super) organizations: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct CertificateRequestStatus<'a> {
    pub(super) certificate: Text<'a>,
    /// What archives have in place of the certificate (AU-20).
    #[serde(deserialize_with = "or_default")]
    pub(super) issued: bool,
    pub(super) conditions: List<Condition<'a>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct Condition<'a> {
    #[serde(rename = "type")]
    pub(super) kind: Text<'a>,
}

/// A Secret, without its values (AU-13): only of a bootstrap token three entries are read, which are no secrets.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct SecretView<'a> {
    #[serde(deserialize_with = "or_default")]
    pub(super) metadata: Metadata<'a>,
    #[serde(rename = "type")]
    pub(super) kind: Text<'a>,
    pub(super) data: TokenEntries<'a>,
}

/// The entries of a bootstrap token that are no secrets, in base64; empty where absent.
#[derive(Clone, Debug, Default)]
pub(super) struct TokenEntries<'a> {
    pub(super) expiration: Text<'a>,
    pub(super) usage_authentication: Text<'a>,
    pub(super) groups: Text<'a>,
}

/// Some entries of a map of strings. The parser skips the others: no value reaches memory that outlives the file.
trait Entries<'a>: Default {
    /// The place of an entry; none if it is not read.
    fn entry(&mut self, key: &str) -> Option<&mut Text<'a>>;
}

impl<'a> Entries<'a> for TokenEntries<'a> {
    fn entry(&mut self, key: &str) -> Option<&mut Text<'a>> {
        match key {
            "expiration" => Some(&mut self.expiration),
            "usage-bootstrap-authentication" => Some(&mut self.usage_authentication),
            "auth-extra-groups" => Some(&mut self.groups),
            _ => None,
        }
    }
}

impl<'a> Entries<'a> for KubeletEntry<'a> {
    fn entry(&mut self, key: &str) -> Option<&mut Text<'a>> {
        (key == "kubelet").then_some(&mut self.kubelet)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for TokenEntries<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EntriesVisitor::<TokenEntries<'de>>(PhantomData))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for KubeletEntry<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EntriesVisitor::<KubeletEntry<'de>>(PhantomData))
    }
}

struct EntriesVisitor<T>(PhantomData<T>);

impl<'de, T: Entries<'de>> Visitor<'de> for EntriesVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let mut entries = T::default();
        while let Some(key) = map.next_key::<Text<'de>>()? {
            match entries.entry(&key) {
                Some(entry) => *entry = map.next_value::<Text<'de>>()?,
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(entries)
    }

    fn visit_unit<E>(self) -> Result<T, E> {
        Ok(T::default())
    }

    // The usual error would quote the text, which may be a secret.
    fn visit_str<E: Error>(self, _: &str) -> Result<T, E> {
        Err(E::custom("invalid type: a string, expected a map of strings"))
    }
}
