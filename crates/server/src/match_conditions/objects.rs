//! The objects with known fields that expressions are about, as Kubernetes declares them.

/// An object and its fields (AC-103, AC-104, AC-107), each in the notation of `types`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) name: &'static str,
    pub(super) fields: &'static [(&'static str, &'static str)],
}

static OBJECTS: [Object; 15] = [
    Object {
        name: "kubernetes.SubjectAccessReviewSpec",
        fields: &[
            ("user", "string"),
            ("uid", "string"),
            ("groups", "list<string>"),
            ("extra", "map<string,list<string>>"),
            ("resourceAttributes", "kubernetes.ResourceAttributes"),
            ("nonResourceAttributes", "kubernetes.NonResourceAttributes"),
        ],
    },
    Object {
        name: "kubernetes.ResourceAttributes",
        fields: &[
            ("namespace", "string"),
            ("verb", "string"),
            ("group", "string"),
            ("version", "string"),
            ("resource", "string"),
            ("subresource", "string"),
            ("name", "string"),
            ("fieldSelector", "kubernetes.FieldSelectorAttributes"),
            ("labelSelector", "kubernetes.LabelSelectorAttributes"),
        ],
    },
    Object { name: "kubernetes.NonResourceAttributes", fields: &[("path", "string"), ("verb", "string")] },
    Object {
        name: "kubernetes.FieldSelectorAttributes",
        fields: &[("rawSelector", "string"), ("requirements", "list<kubernetes.SelectorRequirement>")],
    },
    Object {
        name: "kubernetes.LabelSelectorAttributes",
        fields: &[("rawSelector", "string"), ("requirements", "list<kubernetes.SelectorRequirement>")],
    },
    Object {
        name: "kubernetes.SelectorRequirement",
        fields: &[("key", "string"), ("operator", "string"), ("values", "list<string>")],
    },
    Object {
        name: "kubernetes.AdmissionRequest",
        fields: &[
            ("kind", "kubernetes.GroupVersionKind"),
            ("resource", "kubernetes.GroupVersionResource"),
            ("subResource", "string"),
            ("requestKind", "kubernetes.GroupVersionKind"),
            ("requestResource", "kubernetes.GroupVersionResource"),
            ("requestSubResource", "string"),
            ("name", "string"),
            ("namespace", "string"),
            ("operation", "string"),
            ("userInfo", "kubernetes.UserInfo"),
            ("dryRun", "bool"),
            ("options", "dyn"),
        ],
    },
    Object {
        name: "kubernetes.GroupVersionKind",
        fields: &[("group", "string"), ("version", "string"), ("kind", "string")],
    },
    Object {
        name: "kubernetes.GroupVersionResource",
        fields: &[("group", "string"), ("version", "string"), ("resource", "string")],
    },
    Object {
        name: "kubernetes.UserInfo",
        fields: &[
            ("username", "string"),
            ("uid", "string"),
            ("groups", "list<string>"),
            ("extra", "map<string,list<string>>"),
        ],
    },
    Object {
        name: "kubernetes.Namespace",
        fields: &[
            ("metadata", "kubernetes.NamespaceMetadata"),
            ("spec", "kubernetes.NamespaceSpec"),
            ("status", "kubernetes.NamespaceStatus"),
        ],
    },
    Object {
        name: "kubernetes.NamespaceMetadata",
        fields: &[
            ("name", "string"),
            ("generateName", "string"),
            ("namespace", "string"),
            ("labels", "map<string,string>"),
            ("annotations", "map<string,string>"),
            ("creationTimestamp", "dyn"),
            ("deletionGracePeriodSeconds", "int"),
            ("deletionTimestamp", "dyn"),
            ("generation", "int"),
            ("resourceVersion", "string"),
            ("finalizers", "list<string>"),
        ],
    },
    Object { name: "kubernetes.NamespaceSpec", fields: &[("finalizers", "list<string>")] },
    Object { name: "kubernetes.NamespaceStatus", fields: &[("phase", "string")] },
    Object {
        name: "kubernetes.DRADevice",
        fields: &[
            ("driver", "string"),
            ("attributes", "map<string,map<string,dyn>>"),
            ("capacity", "map<string,map<string,quantity>>"),
            ("allowMultipleAllocations", "bool"),
        ],
    },
];

impl Object {
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        OBJECTS.iter().find(|object| object.name == name)
    }
}
