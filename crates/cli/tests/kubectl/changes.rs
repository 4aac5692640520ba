//! kubectl commands that write.

use std::process::Stdio;

use portcullis_testkit::tool;

use crate::kubectl::support::Served;

const MANIFEST: &str = "
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop, labels: {app: web}}
spec:
  containers:
  - name: web
    image: registry.example/web:1
    env: [{name: A, value: '1'}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: theme, namespace: shop}
data: {colour: red}
";

#[test]
fn objects_are_created_by_the_commands_for_them() {
    let served = Served::start(&[]);
    let rbac = "rbac.authorization.k8s.io";
    for (line, printed) in [
        ("create namespace shop", "namespace/shop created".to_owned()),
        ("create serviceaccount web -n shop", "serviceaccount/web created".to_owned()),
        ("create configmap theme -n shop --from-literal=colour=red", "configmap/theme created".to_owned()),
        ("create secret generic key -n shop --from-literal=k=v", "secret/key created".to_owned()),
        ("create role reader -n shop --verb=get,list --resource=pods", format!("role.{rbac}/reader created")),
        (
            "create rolebinding readers -n shop --role=reader --user=jane",
            format!("rolebinding.{rbac}/readers created"),
        ),
        (
            "create clusterrole watcher --verb=watch --resource=nodes",
            format!("clusterrole.{rbac}/watcher created"),
        ),
        (
            "create clusterrolebinding watchers --clusterrole=watcher --group=ops",
            format!("clusterrolebinding.{rbac}/watchers created"),
        ),
    ] {
        assert_eq!(served.ok(line), printed);
    }
    assert_eq!(served.ok("get secret key -n shop -o jsonpath={.data.k}"), "dg==");
    assert_eq!(served.ok("auth can-i list pods -n shop --as jane"), "yes");
    assert_eq!(served.kubectl("auth can-i list pods -n default --as jane").stdout.trim_end(), "no");
    assert_eq!(served.ok("auth can-i watch nodes --as joe --as-group ops"), "yes");
    let again = served.fails("create namespace shop");
    assert_eq!(again, "Error from server (AlreadyExists): namespaces \"shop\" already exists");
    let nowhere = served.fails("create configmap theme -n nowhere");
    assert!(nowhere.contains("namespaces \"nowhere\" not found"), "{nowhere}");
    let dry = served.ok("create namespace dry --dry-run=server -o name");
    assert_eq!(dry, "namespace/dry");
    assert!(served.fails("get namespace dry").contains("NotFound"));
}

#[test]
fn manifests_are_applied_changed_and_deleted() {
    let served = Served::start(&[]);
    served.ok("create namespace shop");
    served.scratch.write("m.yaml", MANIFEST);
    assert_eq!(served.ok("apply -f m.yaml"), "pod/web created\nconfigmap/theme created");
    assert_eq!(served.ok("apply -f m.yaml"), "pod/web unchanged\nconfigmap/theme unchanged");
    let changed = MANIFEST.replace("web:1", "web:2").replace("{colour: red}", "{size: large}");
    served.scratch.write("m.yaml", changed);
    let differs = served.kubectl("diff -f m.yaml");
    assert_eq!(differs.code, 1, "{differs:?}");
    assert!(differs.stdout.contains("-  colour: red\n+  size: large\n"), "{differs:?}");
    assert_eq!(served.ok("apply -f m.yaml"), "pod/web configured\nconfigmap/theme configured");
    assert_eq!(served.json("get configmap theme -n shop")["data"], serde_json::json!({"size": "large"}));
    assert_eq!(
        served.ok("get pod web -n shop -o jsonpath={.spec.containers[0].image}"),
        "registry.example/web:2"
    );

    let patched = |words: &str| served.ok(&format!("patch configmap theme -n shop {words}"));
    assert_eq!(patched("-p '{\"data\":{\"a\":\"1\"}}'"), "configmap/theme patched");
    assert_eq!(patched("--type=merge -p '{\"data\":{\"size\":null}}'"), "configmap/theme patched");
    let remove = "--type=json -p '[{\"op\":\"test\",\"path\":\"/data/a\",\"value\":\"1\"},{\"op\":\"add\",\"path\":\"/data/b\",\"value\":\"2\"}]'";
    assert_eq!(patched(remove), "configmap/theme patched");
    assert_eq!(served.json("get configmap theme -n shop")["data"], serde_json::json!({"a": "1", "b": "2"}));
    assert_eq!(patched("-p '{}'"), "configmap/theme patched (no change)");

    assert_eq!(served.ok("label pod web -n shop tier=front"), "pod/web labeled");
    assert_eq!(served.ok("get pods -A -l tier=front -o name"), "pod/web");
    assert_eq!(served.ok("label pod web -n shop tier-"), "pod/web unlabeled");
    assert_eq!(served.ok("annotate pod web -n shop note=x"), "pod/web annotated");

    let mut config = served.json("get configmap theme -n shop");
    config["data"] = serde_json::json!({"c": "3"});
    assert_eq!(served.ok_with("replace -f -", &config.to_string()), "configmap/theme replaced");
    let stale = served.kubectl_with("replace -f -", &config.to_string());
    assert!(stale.stderr.contains("the object has been modified"), "{stale:?}");

    let invalid = served.fails("patch pod web -n shop -p '{\"spec\":{\"nodeName\":\"elsewhere\"}}'");
    assert!(
        invalid.starts_with("The Pod \"web\" is invalid: spec: Forbidden: pod updates may not change fields"),
        "{invalid}"
    );
    let typo = served.kubectl_with(
        "create -f -",
        r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x","namespace":"shop"},"dta":{}}"#,
    );
    assert_eq!(typo.code, 1);
    assert!(typo.stderr.contains("strict decoding error: unknown field \"dta\""), "{typo:?}");

    assert_eq!(served.ok("delete configmap theme -n shop"), "configmap \"theme\" deleted");
    assert_eq!(served.ok("delete -f m.yaml --ignore-not-found"), "pod \"web\" deleted");
    assert_eq!(served.ok("delete namespace shop"), "namespace \"shop\" deleted");
    assert!(served.fails("get namespace shop").contains("NotFound"));
}

#[test]
fn nodes_are_tainted_cordoned_and_let_go() {
    let served = Served::example();
    assert_eq!(served.ok("taint node node-2 dedicated=x:NoSchedule"), "node/node-2 tainted");
    assert_eq!(served.ok("get node node-2 -o jsonpath={.spec.taints[0].key}"), "dedicated");
    assert_eq!(served.ok("taint node node-2 dedicated-"), "node/node-2 untainted");
    assert_eq!(served.ok("cordon node-2"), "node/node-2 cordoned");
    assert_eq!(served.table("get node node-2")[1][1], "Ready,SchedulingDisabled");
    assert_eq!(served.ok("uncordon node-2"), "node/node-2 uncordoned");
    assert_eq!(served.table("get node node-2")[1][1], "Ready");
}

#[test]
fn changes_are_watched_and_waited_for() {
    let served = Served::start(&[]);
    let mut watching = tool::command("kubectl")
        .args(["get", "configmaps", "-n", "default", "-w", "--output-watch-events"])
        .env("KUBECONFIG", served.data().join("admin.kubeconfig"))
        .env("HOME", served.scratch.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(watching.stdout.take().unwrap()));
    // What every namespace has shows that the watch goes on from here.
    lines.by_ref().map(Result::unwrap).find(|line| line.contains("kube-root-ca.crt")).expect("a watch");
    served.ok("create configmap one");
    served.ok("label configmap one a=b");
    served.ok("delete configmap one");
    let words = |line: String| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let events = lines.by_ref().map(|line| words(line.unwrap()));
    let of_one = events.filter(|words| words.get(1).is_some_and(|name| name == "one"));
    let events: Vec<String> = of_one.map(|mut words| words.swap_remove(0)).take(3).collect();
    watching.kill().unwrap();
    watching.wait().unwrap();
    assert_eq!(events, ["ADDED", "MODIFIED", "DELETED"]);

    served.ok("create namespace shop");
    let waited = served.ok("wait --for=jsonpath='{.status.phase}'=Active namespace/shop --timeout=60s");
    assert_eq!(waited, "namespace/shop condition met");
    served.ok("delete namespace shop --wait=false");
    served.ok("wait --for=delete namespace/shop --timeout=60s");
    let never = served.fails("wait --for=condition=Ready namespace/default --timeout=1s");
    assert!(never.contains("timed out waiting for the condition on namespaces/default"), "{never}");
}

#[test]
fn objects_outlive_the_server() {
    let state = portcullis_testkit::scratch::Scratch::new();
    let file = state.write("state.yaml", MANIFEST);
    let flags = ["--state", file.to_str().unwrap()];
    let served = Served::start(&flags);
    assert_eq!(served.ok("get configmap theme -n shop -o jsonpath={.data.colour}"), "red");
    assert_eq!(served.ok("delete configmap theme -n shop"), "configmap \"theme\" deleted");
    served.ok("create configmap kept -n shop");
    let uid = served.ok("get configmap kept -n shop -o jsonpath={.metadata.uid}");
    let served = served.restart(&flags);
    assert_eq!(served.ok("get configmap kept -n shop -o jsonpath={.metadata.uid}"), uid);
    assert!(
        served.fails("get configmap theme -n shop").contains("NotFound"),
        "files fill an empty store only"
    );
    let log = served.log();
    assert!(log.contains("--state is passed over"), "{log}");
    let printed = served.stop();
    assert!(printed.contains("Note: --state was not used"), "{printed}");
}
