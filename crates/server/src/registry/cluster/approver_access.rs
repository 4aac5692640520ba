//! The roles of the machine approver and of the attestation controller inside `serve`, and those that nodes need beside
//! them (NB-130, NB-141, AT-87). Missing objects are created at startup. Changes by an administrator are kept.

use kinds::Map;
use kinds::resource::Resource;
use kinds::resources::rbac::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES};
use serde_json::{Value, json};

use crate::http::status::Status;
use crate::registry::backend::Backend;
use crate::registry::write;

/// The approver's user.
pub const USER: &str = "portcullis:machine-approver";
/// The user of the attestation controller.
pub const ATTESTATION_USER: &str = "portcullis:attestation";
/// The namespace of its identity records and keys.
pub const ATTESTATION_NAMESPACE: &str = "kube-system";
/// The binding by which bootstrap tokens may ask for certificates.
const BOOTSTRAP: &str = "portcullis:attested-bootstrap";
/// The role by which nodes may renew their own certificates automatically.
const RENEWAL: &str = "portcullis:node-client-renewal";
/// The roles of the automatic approval that the attestation controller restores when it is switched off.
const AUTOMATIC: [&str; 2] = ["nodeclient", "selfnodeclient"];
const RBAC: &str = "rbac.authorization.k8s.io";

/// Creates the missing role and bindings.
///
/// # Errors
/// The store failed.
pub async fn ensure(backend: &Backend) -> Result<(), Status> {
    let renewal = "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient";
    for (resource, object) in [
        (&CLUSTER_ROLES, json!({"metadata": {"name": USER}, "rules": rules()})),
        (&CLUSTER_ROLE_BINDINGS, binding(USER, USER, "User", USER)),
        (&CLUSTER_ROLE_BINDINGS, binding(RENEWAL, renewal, "Group", "system:nodes")),
    ] {
        create(backend, resource, "", object).await?;
    }
    Ok(())
}

/// Creates the missing roles and bindings of the attestation controller. A bootstrap token alone yields nothing: all
/// requests need evidence (AT-145).
///
/// # Errors
/// The store failed.
pub async fn ensure_attested(backend: &Backend) -> Result<(), Status> {
    let (user, namespace) = (ATTESTATION_USER, ATTESTATION_NAMESPACE);
    let own = json!({"metadata": {"name": user}, "rules": attestation_rules()});
    let stored = json!({"metadata": {"name": user}, "rules": [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "get", "list", "update", "patch"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "update"],
            "resourceNames": ["portcullis-attestation-keys"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["delete"],
            "resourceNames": ["portcullis-removed-bindings"]},
    ]});
    let mut stored_binding = binding(user, user, "User", user);
    if let Some(kind) = stored_binding.pointer_mut("/roleRef/kind") {
        *kind = "Role".into();
    }
    let bootstrap = binding(BOOTSTRAP, "system:node-bootstrapper", "Group", "system:bootstrappers");
    create(backend, &CLUSTER_ROLES, "", own).await?;
    create(backend, &CLUSTER_ROLE_BINDINGS, "", binding(user, user, "User", user)).await?;
    create(backend, &ROLES, namespace, stored).await?;
    create(backend, &ROLE_BINDINGS, namespace, stored_binding).await?;
    create(backend, &CLUSTER_ROLE_BINDINGS, "", bootstrap).await
}

fn attestation_rules() -> Value {
    let read = ["get", "list", "watch"];
    let certificates = ["certificates.k8s.io"];
    let signers = ["tpm", "challenge", "insecure"]
        .map(|name| format!("cluster.x-k8s.io/kube-apiserver-client-kubelet-{name}"));
    let serving = ["tpm", "challenge"].map(|name| format!("cluster.x-k8s.io/kubelet-serving-{name}"));
    json!([
        {"apiGroups": certificates, "resources": ["certificatesigningrequests"],
            "verbs": ["get", "list", "watch", "patch"]},
        {"apiGroups": certificates,
            "resources": ["certificatesigningrequests/approval", "certificatesigningrequests/status"],
            "verbs": ["update"]},
        {"apiGroups": certificates, "resources": ["signers"], "verbs": ["approve", "sign"],
            "resourceNames": signers},
        {"apiGroups": certificates, "resources": ["signers"], "verbs": ["approve", "sign"],
            "resourceNames": serving},
        {"apiGroups": certificates, "resources": ["signers"], "verbs": ["approve"],
            "resourceNames": ["kubernetes.io/kubelet-serving", "cluster.x-k8s.io/kubelet-serving-insecure"]},
        {"apiGroups": [RBAC], "resources": ["clusterrolebindings"], "verbs": ["get", "delete"],
            "resourceNames": ["kubeadm:node-autoapprove-bootstrap", "kubeadm:node-autoapprove-certificate-rotation"]},
        {"apiGroups": [RBAC], "resources": ["clusterrolebindings"], "verbs": ["create"]},
        {"apiGroups": [RBAC], "resources": ["clusterroles"], "verbs": ["bind"],
            "resourceNames": AUTOMATIC.map(|role| format!("system:certificates.k8s.io:certificatesigningrequests:{role}"))},
        {"apiGroups": ["machine.openshift.io", "cluster.x-k8s.io"], "resources": ["machines"], "verbs": read},
        {"apiGroups": ["cluster.x-k8s.io"], "resources": ["machinepools"], "verbs": read},
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
    ])
}

async fn create(
    backend: &Backend,
    resource: &'static Resource,
    namespace: &str,
    object: Value,
) -> Result<(), Status> {
    let object: Map = serde_json::from_value(object).map_err(Status::internal)?;
    let write = write::create(resource, namespace, object, write::SERVER)?;
    // An existing object is not changed.
    write::commit(backend, vec![write]).await.map(drop)
}

fn binding(name: &str, role: &str, kind: &str, subject: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": kind, "name": subject}],
    })
}

fn rules() -> Value {
    let read = ["get", "list", "watch"];
    let certificates = ["certificates.k8s.io"];
    json!([
        {"apiGroups": certificates, "resources": ["certificatesigningrequests"],
            "verbs": ["get", "list", "watch", "patch"]},
        {"apiGroups": certificates, "resources": ["certificatesigningrequests/approval"], "verbs": ["update"]},
        {"apiGroups": certificates, "resources": ["signers"], "verbs": ["approve"],
            "resourceNames": ["kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving"]},
        {"apiGroups": ["machine.openshift.io", "cluster.x-k8s.io"], "resources": ["machines"], "verbs": read},
        {"apiGroups": ["cluster.x-k8s.io"], "resources": ["machinepools"], "verbs": read},
        {"apiGroups": [""], "resources": ["nodes"], "verbs": read},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"],
            "resourceNames": ["csr-controller-ca", "kubelet-bootstrap-kubeconfig", "machine-approver-config"]},
        {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
        {"apiGroups": ["config.openshift.io"], "resources": ["networks"], "verbs": ["get"]},
        {"apiGroups": ["network.openshift.io"], "resources": ["hostsubnets"], "verbs": ["get"]},
    ])
}
