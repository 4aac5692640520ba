//! A synthetic cluster of any size, and requests for it.
//!
//! Pods are spread over 200 namespaces. Each has its own secret, the one shared secret of its namespace, its own
//! config map, and its own claim bound to its own volume with a secret of its own. Binding `i` gives user `i` the role
//! `i` over API group `i`. Half of the requests are for what another node's pod has, or for another API group.

use std::fmt::Write as _;
use std::str::FromStr;

use portcullis_policy::objects::Object;
use portcullis_policy::objects::core::{CsiPersistentVolume, PersistentVolume, PersistentVolumeSpec};
use portcullis_policy::objects::decode::{List, Text};
use portcullis_policy::objects::meta::{LocalReference, Metadata, NamespacedReference};
use portcullis_policy::objects::pod::{
    ClaimSource, Container, EnvFrom, Pod, PodSpec, SecretNameSource, Volume,
};
use portcullis_policy::objects::rbac::{
    Binding, OwnedMetadata, PolicyRule, RBAC_GROUP, Role, RoleRef, Subject,
};
use portcullis_policy::{Attributes, ResourceRequest, User};

const NAMESPACES: u32 = 200;

/// The size of the synthetic cluster: `nodes=N,pods-per-node=P,bindings=B`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Synthetic {
    /// The number of nodes.
    pub nodes: u32,
    /// The number of pods per node.
    pub pods_per_node: u32,
    /// The number of ClusterRoleBindings, each with its own user and role.
    pub bindings: u32,
}

impl FromStr for Synthetic {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut size = Self::default();
        for part in text.split(',').filter(|p| !p.is_empty()) {
            let (name, value) =
                part.split_once('=').ok_or_else(|| format!("{part:?} has no value: write NAME=NUMBER"))?;
            let value: u32 = value.parse().map_err(|_| format!("{value:?} is not a number, in {part:?}"))?;
            match name {
                "nodes" => size.nodes = value,
                "pods-per-node" => size.pods_per_node = value,
                "bindings" => size.bindings = value,
                _ => return Err(format!("unknown size {name:?}: known are nodes, pods-per-node, bindings")),
            }
        }
        if u64::from(size.nodes) * u64::from(size.pods_per_node) > u64::from(u32::MAX / 16) {
            return Err("too many pods: the maximum is 268,435,455".to_owned());
        }
        if size.nodes > 0 && size.pods_per_node == 0 || size == Self::default() {
            return Err("the cluster is empty: set nodes and pods-per-node, or bindings".to_owned());
        }
        Ok(size)
    }
}

/// The names of the objects of one pod.
struct Names {
    namespace: String,
    node: String,
    pod: String,
    secret: String,
    config_map: String,
    claim: String,
    volume: String,
    volume_secret: String,
}

const SHARED_SECRET: &str = "shared";

impl Synthetic {
    /// Returns the number of pods.
    pub fn pods(self) -> u32 {
        self.nodes * self.pods_per_node
    }

    fn names(self, pod: u32) -> Names {
        Names {
            namespace: format!("ns-{}", pod % NAMESPACES),
            node: format!("node-{}", pod / self.pods_per_node.max(1)),
            pod: format!("pod-{pod}"),
            secret: format!("secret-{pod}"),
            config_map: format!("config-{pod}"),
            claim: format!("claim-{pod}"),
            volume: format!("volume-{pod}"),
            volume_secret: format!("volume-secret-{pod}"),
        }
    }

    /// Creates all objects in order: pods and volumes first, then roles and bindings.
    pub fn each_object(self, mut visit: impl FnMut(Object<'_>)) {
        for pod in 0..self.pods() {
            let names = self.names(pod);
            visit(Object::Pod(Box::new(names.pod())));
            visit(Object::PersistentVolume(Box::new(names.volume())));
        }
        for binding in 0..self.bindings {
            visit(Object::ClusterRole(role(binding)));
            visit(Object::ClusterRoleBinding(cluster_role_binding(binding)));
        }
    }

    /// Creates one pod, for deleting and adding it again.
    pub fn with_pod<T>(self, pod: u32, visit: impl FnOnce(&Pod<'_>) -> T) -> T {
        visit(&self.names(pod).pod())
    }

    /// Writes the objects as one JSON List, one object per line.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn write_list(self, out: &mut impl std::io::Write) -> std::io::Result<()> {
        writeln!(out, "{{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[")?;
        let mut line = String::new();
        let mut separator = "";
        for pod in 0..self.pods() {
            line.clear();
            self.names(pod).write_json(&mut line);
            write!(out, "{separator}{line}")?;
            separator = ",\n";
        }
        for binding in 0..self.bindings {
            write!(out, "{separator}{}", rbac_json(binding))?;
            separator = ",\n";
        }
        writeln!(out, "\n]}}")
    }

    /// Creates `count` requests of nodes, spread evenly over nodes and objects.
    pub fn node_requests(self, count: u32) -> Requests {
        let mut requests = Requests::default();
        let pods = self.pods();
        if pods == 0 {
            return requests;
        }
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        for at in 0..count {
            let asker = random.below(pods);
            // Every second request is for a pod of another node, if there is one.
            let owner = if at % 2 == 0 || self.nodes < 2 {
                asker
            } else {
                (asker + self.pods_per_node * (1 + random.below(self.nodes - 1))) % pods
            };
            let names = self.names(owner);
            let (resource, namespace, name) = match random.below(6) {
                0 => ("secrets", &*names.namespace, &*names.secret),
                1 => ("secrets", &*names.namespace, SHARED_SECRET),
                2 => ("configmaps", &*names.namespace, &*names.config_map),
                3 => ("persistentvolumeclaims", &*names.namespace, &*names.claim),
                4 => ("persistentvolumes", "", &*names.volume),
                _ => ("secrets", &*names.namespace, &*names.volume_secret),
            };
            let node = format!("system:node:node-{}", asker / self.pods_per_node);
            let user = User::new(node, ["system:nodes", "system:authenticated"]);
            requests.push(user, ["get", "", resource, namespace, name]);
        }
        requests
    }

    /// Creates `count` requests of users, spread evenly over the bindings.
    pub fn user_requests(self, count: u32) -> Requests {
        let mut requests = Requests::default();
        if self.bindings == 0 {
            return requests;
        }
        let mut random = Random(0x2545_f491_4f6c_dd1d);
        for at in 0..count {
            let user = random.below(self.bindings);
            let group = if at % 2 == 0 { user } else { (user + 1) % self.bindings.max(2) };
            let group = format!("group-{group}.example.com");
            let namespace = format!("ns-{}", user % NAMESPACES);
            let user = User::new(format!("user-{user}"), ["system:authenticated"]);
            requests.push(user, ["get", &group, "widgets", &namespace, "w"]);
        }
        requests
    }
}

/// The requests, contiguous in memory, so that fetching them does not affect the measurement.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    text: String,
    requests: Vec<Request>,
}

#[derive(Clone, Debug)]
struct Request {
    user: User,
    at: usize,
    /// Verb, group, resource, namespace, name.
    lengths: [u8; 5],
}

impl Requests {
    fn push(&mut self, user: User, parts: [&str; 5]) {
        let at = self.text.len();
        parts.iter().for_each(|part| self.text.push_str(part));
        // The generated names are short.
        self.requests.push(Request { user, at, lengths: parts.map(|part| part.len() as u8) });
    }

    /// Appends other requests.
    pub fn append(&mut self, other: Self) {
        let at = self.text.len();
        self.text.push_str(&other.text);
        self.requests.extend(other.requests.into_iter().map(|r| Request { at: r.at + at, ..r }));
    }

    /// Returns the number of requests.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Returns whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Writes the requests as SubjectAccessReviews, one JSON object per line.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn write_reviews(&self, out: &mut impl std::io::Write) -> std::io::Result<()> {
        for at in 0..self.len() {
            let Some(Attributes { user, verb, resource, .. }) = self.attributes(at) else { continue };
            let ResourceRequest { group, version, resource, namespace, name, .. } =
                resource.unwrap_or_default();
            // The generated names need no escaping in JSON.
            let groups = user.groups.join("\",\"");
            writeln!(
                out,
                r#"{{"apiVersion":"authorization.k8s.io/v1","kind":"SubjectAccessReview","spec":{{"user":"{}","groups":["{groups}"],"resourceAttributes":{{"namespace":"{namespace}","verb":"{verb}","group":"{group}","version":"{version}","resource":"{resource}","name":"{name}"}}}}}}"#,
                user.name
            )?;
        }
        Ok(())
    }

    /// Returns the attributes of a request.
    pub fn attributes(&self, at: usize) -> Option<Attributes<'_>> {
        let request = self.requests.get(at)?;
        let mut rest = self.text.get(request.at..)?;
        let mut part = |length: u8| {
            let (part, others) = rest.split_at_checked(usize::from(length))?;
            rest = others;
            Some(part)
        };
        let [verb, group, resource, namespace, name] = request.lengths;
        let verb = part(verb)?;
        let request_group = part(group)?;
        Some(Attributes {
            user: &request.user,
            verb,
            path: "",
            resource: Some(ResourceRequest {
                group: request_group,
                version: "v1",
                resource: part(resource)?,
                namespace: part(namespace)?,
                name: part(name)?,
                ..ResourceRequest::default()
            }),
        })
    }
}

impl Names {
    fn metadata(&self) -> Metadata<'_> {
        Metadata { namespace: text(&self.namespace), name: text(&self.pod), ..Metadata::default() }
    }

    fn pod(&self) -> Pod<'_> {
        let volume = |name: &'static str| Volume { name: text(name), ..Volume::default() };
        let secret = |name| Some(SecretNameSource { secret_name: text(name) });
        let config = EnvFrom {
            config_map_ref: Some(LocalReference { name: text(&self.config_map) }),
            ..EnvFrom::default()
        };
        Pod {
            metadata: self.metadata(),
            spec: PodSpec {
                node_name: text(&self.node),
                containers: List(vec![Container { env_from: List(vec![config]), ..Container::default() }]),
                volumes: List(vec![
                    Volume { secret: secret(&self.secret), ..volume("own") },
                    Volume { secret: secret(SHARED_SECRET), ..volume("shared") },
                    Volume {
                        persistent_volume_claim: Some(ClaimSource { claim_name: text(&self.claim) }),
                        ..volume("data")
                    },
                ]),
                ..PodSpec::default()
            },
            ..Pod::default()
        }
    }

    fn volume(&self) -> PersistentVolume<'_> {
        let reference = |name| NamespacedReference { namespace: text(&self.namespace), name: text(name) };
        PersistentVolume {
            metadata: Metadata { name: text(&self.volume), ..Metadata::default() },
            spec: PersistentVolumeSpec {
                claim_ref: Some(reference(&self.claim)),
                csi: Some(CsiPersistentVolume {
                    driver: text("csi.example.com"),
                    node_stage_secret_ref: Some(reference(&self.volume_secret)),
                    ..CsiPersistentVolume::default()
                }),
                ..PersistentVolumeSpec::default()
            },
        }
    }

    fn write_json(&self, out: &mut String) {
        let Self { namespace, node, pod, secret, config_map, claim, volume, volume_secret } = self;
        // Writing to a String does not fail.
        let _ = write!(
            out,
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"namespace":"{namespace}","name":"{pod}"}},"spec":{{"nodeName":"{node}","containers":[{{"name":"main","image":"registry.example.com/app","envFrom":[{{"configMapRef":{{"name":"{config_map}"}}}}]}}],"volumes":[{{"name":"own","secret":{{"secretName":"{secret}"}}}},{{"name":"shared","secret":{{"secretName":"{SHARED_SECRET}"}}}},{{"name":"data","persistentVolumeClaim":{{"claimName":"{claim}"}}}}]}},"status":{{"phase":"Running"}}}},
{{"apiVersion":"v1","kind":"PersistentVolume","metadata":{{"name":"{volume}"}},"spec":{{"capacity":{{"storage":"1Gi"}},"claimRef":{{"kind":"PersistentVolumeClaim","namespace":"{namespace}","name":"{claim}"}},"csi":{{"driver":"csi.example.com","volumeHandle":"{volume}","nodeStageSecretRef":{{"namespace":"{namespace}","name":"{volume_secret}"}}}}}}}}"#
        );
    }
}

fn text(text: &str) -> Text<'_> {
    Text::from(text)
}

fn role(at: u32) -> Role {
    Role {
        metadata: OwnedMetadata { name: format!("role-{at}"), ..OwnedMetadata::default() },
        rules: vec![PolicyRule {
            verbs: vec!["get".to_owned(), "list".to_owned()],
            api_groups: vec![format!("group-{at}.example.com")],
            resources: vec!["widgets".to_owned()],
            ..PolicyRule::default()
        }],
        ..Role::default()
    }
}

fn cluster_role_binding(at: u32) -> Binding {
    Binding {
        metadata: OwnedMetadata { name: format!("binding-{at}"), ..OwnedMetadata::default() },
        subjects: vec![Subject {
            kind: "User".to_owned(),
            api_group: RBAC_GROUP.to_owned(),
            name: format!("user-{at}"),
            ..Subject::default()
        }],
        role_ref: RoleRef {
            api_group: RBAC_GROUP.to_owned(),
            kind: "ClusterRole".to_owned(),
            name: format!("role-{at}"),
        },
    }
}

fn rbac_json(at: u32) -> String {
    format!(
        r#"{{"apiVersion":"{RBAC_GROUP}/v1","kind":"ClusterRole","metadata":{{"name":"role-{at}"}},"rules":[{{"verbs":["get","list"],"apiGroups":["group-{at}.example.com"],"resources":["widgets"]}}]}},
{{"apiVersion":"{RBAC_GROUP}/v1","kind":"ClusterRoleBinding","metadata":{{"name":"binding-{at}"}},"subjects":[{{"kind":"User","apiGroup":"{RBAC_GROUP}","name":"user-{at}"}}],"roleRef":{{"apiGroup":"{RBAC_GROUP}","kind":"ClusterRole","name":"role-{at}"}}}}"#
    )
}

/// A small deterministic random number generator.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 32).wrapping_mul(u64::from(bound)) >> 32) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use portcullis_policy::objects::Kind;

    #[test]
    fn sizes_are_read_and_nonsense_is_refused() {
        let size = Synthetic { nodes: 5, pods_per_node: 30, bindings: 7 };
        assert_eq!("nodes=5,pods-per-node=30,bindings=7".parse(), Ok(size));
        for bad in ["", "nodes=5", "nodes", "nodes=x", "pods=3", "nodes=4000000000,pods-per-node=4000000000"]
        {
            assert!(bad.parse::<Synthetic>().is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_written_is_what_is_made() {
        let size = Synthetic { nodes: 3, pods_per_node: 2, bindings: 2 };
        let mut text = Vec::new();
        size.write_list(&mut text).unwrap();
        let list: serde_json::Value = serde_json::from_slice(&text).unwrap();
        let mut written = list["items"].as_array().unwrap().iter();
        size.each_object(|made| {
            let item = written.next().unwrap();
            let kind =
                Kind::of(item["apiVersion"].as_str().unwrap(), item["kind"].as_str().unwrap()).unwrap();
            let json = item.to_string();
            assert_eq!(format!("{:?}", Object::parse(kind, &json).unwrap()), format!("{made:?}"));
        });
        assert!(written.next().is_none());
    }

    #[test]
    fn half_of_the_requests_are_for_another_node() {
        let size = Synthetic { nodes: 50, pods_per_node: 4, bindings: 0 };
        let requests = size.node_requests(1000);
        let asked: Vec<_> = (0..requests.len()).map(|at| requests.attributes(at).unwrap()).collect();
        let own = asked
            .iter()
            .filter(|a| {
                let pod: Option<u32> =
                    a.resource.unwrap().name.rsplit('-').next().and_then(|n| n.parse().ok());
                pod.is_some_and(|pod| a.user.name == format!("system:node:node-{}", pod / 4))
            })
            .count();
        let shared = asked.iter().filter(|a| a.resource.unwrap().name == SHARED_SECRET).count();
        assert!((own as i64 - (1000 - shared as i64) / 2).abs() < 60, "{own} own, {shared} shared");
    }
}
