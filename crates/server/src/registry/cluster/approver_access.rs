//! The roles of the machine approver inside `serve`, and those that nodes need beside it (NB-130, NB-141). Missing
//! objects are created at startup. Changes by an administrator are kept.

use kinds::Map;
use kinds::resource::Resource;
use kinds::resources::rbac::{CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES};
use serde_json::{Value, json};

use crate::http::status::Status;
use crate::registry::backend::Backend;
use crate::registry::write;

/// The approver's user.
pub const USER: &str = "portcullis:machine-approver";
/// The role by which nodes may renew their own certificates automatically.
const RENEWAL: &str = "portcullis:node-client-renewal";
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
        create(backend, resource, object).await?;
    }
    Ok(())
}

async fn create(backend: &Backend, resource: &'static Resource, object: Value) -> Result<(), Status> {
    let object: Map = serde_json::from_value(object).map_err(Status::internal)?;
    let write = write::create(resource, "", object)?;
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
