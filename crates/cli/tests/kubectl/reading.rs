//! kubectl commands that read.

use crate::kubectl::support::Served;

#[test]
fn objects_are_got_listed_and_described_in_every_form() {
    let served = Served::example();
    let names = |line: &str| -> Vec<String> {
        served.table(line).into_iter().skip(1).map(|mut row| row.swap_remove(0)).collect()
    };
    assert_eq!(served.table("get nodes")[0], ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]);
    assert_eq!(names("get nodes"), ["node-1", "node-2", "node-3"]);
    assert_eq!(
        names("get ns"),
        [
            "default",
            "kube-node-lease",
            "kube-public",
            "kube-system",
            "monitoring",
            "payments",
            "shop",
            "storage"
        ]
    );
    assert_eq!(served.table("get pods -A")[0], ["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE"]);
    let wide = &served.table("get pods -n shop -o wide")[0];
    assert_eq!(wide[..7], ["NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE"]);
    assert_eq!(served.ok("get no node-2 -o name"), "node/node-2");
    assert_eq!(served.ok("get pod orders-db-0 -n shop -o jsonpath={.spec.nodeName}"), "node-2");
    let yaml = served.ok("get clusterrole view -o yaml");
    assert!(yaml.starts_with("aggregationRule:\n"), "{yaml}");
    assert!(yaml.contains("\n  name: view\n"), "{yaml}");
    assert_eq!(served.json("get pods -A --field-selector spec.nodeName=node-3")["kind"], "List");
    assert_eq!(names("get nodes -l node-role.kubernetes.io/control-plane"), ["node-1"]);
    assert_eq!(
        served.ok("get clusterrolebinding cluster-admin -o custom-columns=R:.roleRef.name"),
        "R\ncluster-admin"
    );

    let node = served.ok("describe node node-1");
    assert!(node.contains("Kubelet Version:") && node.contains("Non-terminated Pods:"), "{node}");
    let pod = served.ok("describe pod orders-db-0 -n shop");
    assert!(pod.contains("Node:") && pod.contains("node-2/"), "{pod}");
    assert!(served.ok("describe clusterrole view").contains("PolicyRule:"));

    assert_eq!(
        served.kubectl("get pods -n payments-2").stderr.trim_end(),
        "No resources found in payments-2 namespace."
    );
    assert_eq!(served.fails("get node node-9"), "Error from server (NotFound): nodes \"node-9\" not found");
    assert_eq!(served.fails("get widgets"), "error: the server doesn't have a resource type \"widgets\"");
}

#[test]
fn what_is_served_can_be_found_out() {
    let served = Served::start(&[]);
    let versions = served.ok("api-versions");
    for version in ["v1", "rbac.authorization.k8s.io/v1", "resource.k8s.io/v1", "policy/v1"] {
        assert!(versions.lines().any(|line| line == version), "{version}: {versions}");
    }
    assert!(!versions.contains("alpha"), "{versions}");
    let resources = served.table("api-resources");
    for row in [
        ["pods", "po", "v1", "true", "Pod"].as_slice(),
        &["nodes", "no", "v1", "false", "Node"],
        &["roles", "rbac.authorization.k8s.io/v1", "true", "Role"],
        &["subjectaccessreviews", "authorization.k8s.io/v1", "false", "SubjectAccessReview"],
    ] {
        assert!(resources.iter().any(|found| found == row), "{row:?}: {resources:?}");
    }
    let mut all =
        served.ok("api-resources --categories all -o name").lines().map(str::to_owned).collect::<Vec<_>>();
    all.sort();
    let in_all = [
        "cronjobs.batch",
        "daemonsets.apps",
        "deployments.apps",
        "horizontalpodautoscalers.autoscaling",
        "jobs.batch",
        "pods",
        "replicasets.apps",
        "replicationcontrollers",
        "services",
        "statefulsets.apps",
    ];
    assert_eq!(all, in_all);
    let version = served.json("version");
    assert_eq!(
        (&version["serverVersion"]["major"], &version["serverVersion"]["minor"]),
        (&"1".into(), &"36".into())
    );
    let plain = served.ok("cluster-info");
    assert!(plain.contains("control plane") && plain.contains(&served.url), "{plain}");

    let field = served.ok("explain pod.spec.nodeName");
    assert!(field.contains("KIND:") && field.contains("FIELD: nodeName <string>"), "{field}");
    let fields = served.ok("explain rolebinding.subjects");
    for text in ["GROUP:      rbac.authorization.k8s.io", "<[]Subject>", "namespace\t<string>"] {
        assert!(fields.contains(text), "{text}: {fields}");
    }
    assert!(served.fails("explain pod.spec.nope").contains("field \"nope\" does not exist"));

    assert_eq!(served.ok("get --raw /readyz"), "ok");
    assert!(served.ok("get --raw /metrics").contains("apiserver_request_total"));
    assert!(served.ok("get --raw /openapi/v3").contains("apis/rbac.authorization.k8s.io/v1"));
}

#[test]
fn the_kubeconfig_is_whole_and_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let served = Served::start(&[]);
    assert_eq!(served.ok("config current-context"), "kubernetes-admin@portcullis");
    assert!(served.ok("config view").contains(&format!("server: {}", served.url)));
    assert_eq!(served.ok("config get-contexts -o name"), "kubernetes-admin@portcullis");
    for name in ["admin.kubeconfig", "admin.key", "apiserver.key", "ca.key", "objects.redb"] {
        let mode = std::fs::metadata(served.data().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert_eq!(std::fs::metadata(served.data()).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn the_administrator_is_known_and_may_do_everything() {
    let served = Served::start(&[]);
    let who = served.ok("auth whoami");
    assert!(
        who.contains("kubernetes-admin") && who.contains("[system:masters system:authenticated]"),
        "{who}"
    );
    assert_eq!(served.ok("auth can-i delete nodes"), "yes");
    assert_eq!(served.ok("auth can-i get /metrics"), "yes");
    let list = served.ok("auth can-i --list");
    assert!(list.lines().any(|line| line.starts_with("*.*") && line.contains("[*]")), "{list}");
    let no = served.kubectl("auth can-i get pods --as jane");
    assert_eq!((no.code, no.stdout.trim_end()), (1, "no"));
}
