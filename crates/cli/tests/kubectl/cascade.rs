//! kubectl commands that delete objects with owners, finalizers and content: nothing hangs, and nothing is left.

use serde_json::Value;

use crate::kubectl::support::Served;

/// Creates `NAME`, two config maps that it owns, and a secret that one of them owns.
fn create_tree(served: &Served, name: &str) {
    served.ok(&format!("create configmap {name}"));
    let uid = |kind: &str, name: &str| served.ok(&format!("get {kind} {name} -o jsonpath={{.metadata.uid}}"));
    let owned = |kind: &str, dependent: &str, owner: &str, blocks: bool| {
        format!(
            "apiVersion: v1\nkind: {kind}\nmetadata:\n  name: {dependent}\n  labels: {{of: {name}}}\n  ownerReferences:\n  - \
             {{apiVersion: v1, kind: ConfigMap, name: {owner}, uid: {}, blockOwnerDeletion: {blocks}}}\n",
            uid("configmap", owner)
        )
    };
    for (dependent, blocks) in [("a", true), ("b", false)] {
        served.ok_with("create -f -", &owned("ConfigMap", &format!("{name}-{dependent}"), name, blocks));
    }
    let owner = format!("{name}-a");
    served.ok_with("create -f -", &owned("Secret", &format!("{name}-c"), &owner, true));
}

fn left(served: &Served, name: &str) -> Vec<String> {
    let names = served.ok(&format!("get configmaps,secrets -l of={name} -o name"));
    names.lines().map(str::to_owned).collect()
}

#[test]
fn dependents_are_deleted_before_or_after_their_owner_or_stay() {
    let served = Served::start(&[]);
    for (name, flag) in [("background", ""), ("background-too", "--cascade=background")] {
        create_tree(&served, name);
        let deleted = served.ok(&format!("delete configmap {name} {flag} --timeout=60s"));
        assert_eq!(deleted, format!("configmap \"{name}\" deleted"));
        for object in
            [format!("configmap/{name}-a"), format!("configmap/{name}-b"), format!("secret/{name}-c")]
        {
            served.kubectl(&format!("wait --for=delete {object} --timeout=60s"));
        }
        assert_eq!(left(&served, name), Vec::<String>::new());
    }

    create_tree(&served, "foreground");
    served.ok("delete configmap foreground --cascade=foreground --timeout=60s");
    // Dependents that do not block are deleted as well, but not waited for.
    let blocking: Vec<String> =
        left(&served, "foreground").into_iter().filter(|name| !name.ends_with("-b")).collect();
    assert_eq!(blocking, Vec::<String>::new());
    served.kubectl("wait --for=delete configmap/foreground-b --timeout=60s");

    create_tree(&served, "orphan");
    served.ok("delete configmap orphan --cascade=orphan --timeout=60s");
    assert_eq!(left(&served, "orphan"), ["configmap/orphan-a", "configmap/orphan-b", "secret/orphan-c"]);
    let owners = |name: &str| served.json(&format!("get {name}"))["metadata"]["ownerReferences"].clone();
    assert_eq!(owners("configmap/orphan-a"), Value::Null);
    assert_eq!(owners("secret/orphan-c")[0]["name"], "orphan-a");
    served.ok("delete configmaps,secrets -l of=orphan --timeout=60s");
    assert_eq!(left(&served, "orphan"), Vec::<String>::new());
}

#[test]
fn a_namespace_with_owners_claims_and_volumes_is_deleted_to_the_last() {
    let served = Served::start(&[]);
    served.ok("create namespace shop");
    served.ok("config set-context --current --namespace=shop");
    create_tree(&served, "tree");
    let storage = "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec: {accessModes: [ReadWriteOnce], capacity: {storage: 1Gi}, hostPath: {path: /x}}
---
apiVersion: v1
kind: Pod
metadata: {name: user}
spec:
  containers: [{name: c, image: i}]
  volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]
";
    served.ok_with("create -f -", storage);
    served.ok("delete configmap tree --cascade=foreground --wait=false");
    served.ok("delete namespace shop --timeout=60s");
    assert!(served.fails("get namespace shop").contains("NotFound"));
    assert_eq!(served.ok("delete pv disk --timeout=60s"), "persistentvolume \"disk\" deleted");
    for kind in ["configmaps", "secrets", "pods", "persistentvolumeclaims"] {
        assert_eq!(served.ok(&format!("get {kind} -n shop -o name")), "", "{kind}");
    }
}
