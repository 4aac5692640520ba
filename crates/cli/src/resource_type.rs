//! Resource types as written for kubectl: `pods`, `pod`, `po`, `deployments.apps`.
//!
//! The common types are listed here. Commands that read a cluster look other types up in its discovery documents. Elsewhere, an
//! unlisted type is used as written.

use std::fmt;

use portcullis_apimachinery::names::is_version;

/// A resource type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceType {
    /// The plural name.
    pub resource: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// Whether the type is namespaced; none if unknown.
    pub namespaced: Option<bool>,
}

/// Plural, singular, short names, group, namespaced.
type Row = (&'static str, &'static str, &'static [&'static str], &'static str, bool);

const KNOWN: &[Row] = &[
    ("bindings", "binding", &[], "", true),
    ("configmaps", "configmap", &["cm"], "", true),
    ("endpoints", "endpoint", &["ep"], "", true),
    ("events", "event", &["ev"], "", true),
    ("limitranges", "limitrange", &["limits"], "", true),
    ("namespaces", "namespace", &["ns"], "", false),
    ("nodes", "node", &["no"], "", false),
    ("persistentvolumeclaims", "persistentvolumeclaim", &["pvc"], "", true),
    ("persistentvolumes", "persistentvolume", &["pv"], "", false),
    ("pods", "pod", &["po"], "", true),
    ("podtemplates", "podtemplate", &[], "", true),
    ("replicationcontrollers", "replicationcontroller", &["rc"], "", true),
    ("resourcequotas", "resourcequota", &["quota"], "", true),
    ("secrets", "secret", &[], "", true),
    ("serviceaccounts", "serviceaccount", &["sa"], "", true),
    ("services", "service", &["svc"], "", true),
    ("controllerrevisions", "controllerrevision", &[], "apps", true),
    ("daemonsets", "daemonset", &["ds"], "apps", true),
    ("deployments", "deployment", &["deploy"], "apps", true),
    ("replicasets", "replicaset", &["rs"], "apps", true),
    ("statefulsets", "statefulset", &["sts"], "apps", true),
    ("tokenreviews", "tokenreview", &[], "authentication.k8s.io", false),
    ("localsubjectaccessreviews", "localsubjectaccessreview", &[], "authorization.k8s.io", true),
    ("selfsubjectaccessreviews", "selfsubjectaccessreview", &[], "authorization.k8s.io", false),
    ("selfsubjectrulesreviews", "selfsubjectrulesreview", &[], "authorization.k8s.io", false),
    ("subjectaccessreviews", "subjectaccessreview", &[], "authorization.k8s.io", false),
    ("horizontalpodautoscalers", "horizontalpodautoscaler", &["hpa"], "autoscaling", true),
    ("cronjobs", "cronjob", &["cj"], "batch", true),
    ("jobs", "job", &[], "batch", true),
    ("certificatesigningrequests", "certificatesigningrequest", &["csr"], "certificates.k8s.io", false),
    ("clustertrustbundles", "clustertrustbundle", &[], "certificates.k8s.io", false),
    ("podcertificaterequests", "podcertificaterequest", &[], "certificates.k8s.io", true),
    ("leases", "lease", &[], "coordination.k8s.io", true),
    ("endpointslices", "endpointslice", &[], "discovery.k8s.io", true),
    ("ingresses", "ingress", &["ing"], "networking.k8s.io", true),
    ("networkpolicies", "networkpolicy", &["netpol"], "networking.k8s.io", true),
    ("runtimeclasses", "runtimeclass", &[], "node.k8s.io", false),
    ("poddisruptionbudgets", "poddisruptionbudget", &["pdb"], "policy", true),
    ("clusterrolebindings", "clusterrolebinding", &[], "rbac.authorization.k8s.io", false),
    ("clusterroles", "clusterrole", &[], "rbac.authorization.k8s.io", false),
    ("rolebindings", "rolebinding", &[], "rbac.authorization.k8s.io", true),
    ("roles", "role", &[], "rbac.authorization.k8s.io", true),
    ("deviceclasses", "deviceclass", &[], "resource.k8s.io", false),
    ("resourceclaims", "resourceclaim", &[], "resource.k8s.io", true),
    ("resourceclaimtemplates", "resourceclaimtemplate", &[], "resource.k8s.io", true),
    ("resourceslices", "resourceslice", &[], "resource.k8s.io", false),
    ("priorityclasses", "priorityclass", &["pc"], "scheduling.k8s.io", false),
    ("csidrivers", "csidriver", &[], "storage.k8s.io", false),
    ("csinodes", "csinode", &[], "storage.k8s.io", false),
    ("csistoragecapacities", "csistoragecapacity", &[], "storage.k8s.io", true),
    ("storageclasses", "storageclass", &["sc"], "storage.k8s.io", false),
    ("volumeattachments", "volumeattachment", &[], "storage.k8s.io", false),
];

impl ResourceType {
    /// The common types.
    pub(crate) fn known() -> impl Iterator<Item = Self> {
        KNOWN.iter().map(|(plural, _, _, group, namespaced)| Self {
            resource: (*plural).to_owned(),
            group: (*group).to_owned(),
            namespaced: Some(*namespaced),
        })
    }

    /// Parses a type: `TYPE` or `TYPE.GROUP`, also `TYPE.VERSION.GROUP` with a version as in Kubernetes. Known types
    /// may be written in any case, so that kinds (`Pod`) are understood too.
    pub fn of(word: &str) -> Self {
        let (name, group) = match word.split_once('.') {
            None => (word, None),
            Some((name, rest)) => match rest.split_once('.') {
                Some((version, group)) if is_version(version) => (name, Some(group)),
                _ => (name, Some(rest)),
            },
        };
        let row = KNOWN.iter().find(|(plural, singular, short, of_group, _)| {
            let is_name = |known: &str| known.eq_ignore_ascii_case(name);
            (is_name(plural) || is_name(singular) || short.iter().any(|short| is_name(short)))
                && group.is_none_or(|group| group.eq_ignore_ascii_case(of_group))
        });
        match row {
            Some((plural, _, _, group, namespaced)) => Self {
                resource: (*plural).to_owned(),
                group: (*group).to_owned(),
                namespaced: Some(*namespaced),
            },
            None => Self {
                resource: name.to_owned(),
                group: group.unwrap_or_default().to_owned(),
                namespaced: None,
            },
        }
    }

    /// Returns whether this is the type of namespaces.
    pub fn is_namespaces(&self) -> bool {
        self.resource == "namespaces" && self.group.is_empty()
    }
}

impl fmt::Display for ResourceType {
    /// The plural name and the group, as `kubectl api-resources -o name` prints them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.group {
            "" => f.write_str(&self.resource),
            group => write!(f, "{}.{group}", self.resource),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_mean_what_they_mean_to_kubectl() {
        let of = |word: &str| {
            let found = ResourceType::of(word);
            (found.resource, found.group, found.namespaced)
        };
        let is =
            |resource: &str, group: &str, namespaced| (resource.to_owned(), group.to_owned(), namespaced);
        assert_eq!(of("po"), is("pods", "", Some(true)));
        assert_eq!(of("node"), is("nodes", "", Some(false)));
        assert_eq!(of("deployments"), is("deployments", "apps", Some(true)));
        assert_eq!(of("deployments.v1.apps"), is("deployments", "apps", Some(true)));
        assert_eq!(of("pods.metrics.k8s.io"), is("pods", "metrics.k8s.io", None));
        assert_eq!(of("widgets.example.com"), is("widgets", "example.com", None));
        assert_eq!(of("widgets"), is("widgets", "", None));
        assert_eq!(of("*"), is("*", "", None));
    }
}
