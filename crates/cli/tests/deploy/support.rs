//! The objects of manifests, what a server has of them, and Helm.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use portcullis_testkit::recorded::repository;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::tool::{self, Finished};
use serde_json::{Value, json};

use crate::kubectl::support::Served;

/// The parts, each with the files of its folder that are for some clusters only.
pub(crate) const PARTS: &[(&str, &[&str])] = &[
    ("approve", &["monitoring.yaml", "openshift.yaml"]),
    ("attest", &["duties.yaml", "monitoring.yaml"]),
    ("audit", &["github-actions.yaml", "gitlab-ci.yaml"]),
    ("guard", &["monitoring.yaml", "rbac-mode.yaml"]),
    ("webhook", &["monitoring.yaml"]),
];

/// The label of every object, with Kustomize and with Helm.
pub(crate) const LABEL: &str = "app.kubernetes.io/part-of=portcullis";

/// Every resource that an object of a part is of, in the words of kubectl.
const RESOURCES: &str = "namespaces,serviceaccounts,configmaps,services,deployments,daemonsets,cronjobs,poddisruptionbudgets,\
    networkpolicies,priorityclasses,roles,rolebindings,clusterroles,clusterrolebindings";

/// Objects by kind, namespace and name.
pub(crate) type Objects = BTreeMap<[String; 3], Value>;

/// The objects of a stream of YAML documents, each of which must be there once.
pub(crate) fn objects(yaml: &str) -> Objects {
    let documents: Vec<Value> = serde_saphyr::from_multiple(yaml).unwrap_or_else(|e| panic!("{e}: {yaml}"));
    let mut all = Objects::new();
    for object in documents.into_iter().filter(|object| !object.is_null()) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        let key = [text(&object["kind"]), text(&metadata["namespace"]), text(&metadata["name"])];
        assert!(all.insert(key.clone(), object).is_none(), "{key:?} is there twice");
    }
    all
}

/// The same without labels that begin with one of these words.
pub(crate) fn without_labels(mut objects: Objects, beginnings: &[&str]) -> Objects {
    for object in objects.values_mut() {
        let Some(labels) = object["metadata"].get_mut("labels").and_then(Value::as_object_mut) else {
            continue;
        };
        labels.retain(|label, _| !beginnings.iter().any(|beginning| label.starts_with(beginning)));
        if labels.is_empty() {
            object["metadata"].as_object_mut().unwrap().remove("labels");
        }
    }
    objects
}

/// The output of `kubectl kustomize` for a folder.
pub(crate) fn kustomize(folder: &Path) -> String {
    tool::run("kubectl", ["kustomize", folder.to_str().unwrap()])
}

pub(crate) fn deploy(part: &str) -> PathBuf {
    repository().join("deploy").join(part)
}

/// Copies `deploy` beside what the test writes: kustomizations name others by relative paths.
pub(crate) fn copy_deploy(folder: &Path) {
    tool::run("cp", [Path::new("-r"), &repository().join("deploy"), folder]);
}

/// The objects on the server with the label of the parts, as `KIND.GROUP/NAME`.
pub(crate) fn labelled(served: &Served) -> BTreeSet<String> {
    let printed = served.ok(&format!("get {RESOURCES} -A -l {LABEL} -o name"));
    printed.lines().map(str::to_owned).collect()
}

/// Every object of those resources, with its namespace and its revision.
pub(crate) fn everything(served: &Served) -> BTreeMap<[String; 3], String> {
    let list = served.json(&format!("get {RESOURCES} -A"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let key = |object: &Value| {
        let metadata = &object["metadata"];
        [text(&object["kind"]), text(&metadata["namespace"]), text(&metadata["name"])]
    };
    let items = list["items"].as_array().unwrap();
    items.iter().map(|object| (key(object), text(&object["metadata"]["resourceVersion"]))).collect()
}

/// Applies this strictly, and gives how often kubectl says each last word: `created`, `configured`, `unchanged`, `pruned`.
pub(crate) fn apply(served: &Served, words: &str, input: &str) -> BTreeMap<String, Vec<String>> {
    let Finished { code, stdout, stderr } =
        served.kubectl_with(&format!("apply --validate=strict {words}"), input);
    assert_eq!((code, &*stderr), (0, ""), "{words}: {stdout}");
    let mut said = BTreeMap::<String, Vec<String>>::new();
    for line in stdout.lines() {
        let (object, word) = line.rsplit_once(' ').unwrap();
        said.entry(word.to_owned()).or_default().push(object.to_owned());
    }
    said
}

/// The flags of `kubectl apply` that delete what is labelled as a part and no longer in what is applied.
pub(crate) fn prune() -> String {
    let resources = [
        "core/v1/ServiceAccount",
        "core/v1/ConfigMap",
        "core/v1/Service",
        "apps/v1/Deployment",
        "apps/v1/DaemonSet",
        "batch/v1/CronJob",
        "policy/v1/PodDisruptionBudget",
        "networking.k8s.io/v1/NetworkPolicy",
        "scheduling.k8s.io/v1/PriorityClass",
        "rbac.authorization.k8s.io/v1/Role",
        "rbac.authorization.k8s.io/v1/RoleBinding",
        "rbac.authorization.k8s.io/v1/ClusterRole",
        "rbac.authorization.k8s.io/v1/ClusterRoleBinding",
    ];
    let allowed: Vec<String> =
        resources.iter().map(|resource| format!("--prune-allowlist={resource}")).collect();
    format!("--prune -l {LABEL} {}", allowed.join(" "))
}

/// Labels that Helm's users expect on every object, and that nothing else has.
pub(crate) const OF_HELM: &[&str] = &[
    "helm.sh/chart",
    "app.kubernetes.io/name",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/version",
    "app.kubernetes.io/managed-by",
];

/// Values that switch these parts on.
pub(crate) fn with(parts: &[&str]) -> Value {
    Value::Object(parts.iter().map(|part| ((*part).to_owned(), json!({"enabled": true}))).collect())
}

/// Values that switch every part on.
pub(crate) fn with_all() -> Value {
    with(&PARTS.iter().map(|(part, _)| *part).collect::<Vec<_>>())
}

/// The folder of Helm's library, which `./test` installs.
pub(crate) fn helm_library() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("helm");
    let requirements = "crates/cli/tests/deploy/requirements.txt";
    assert!(
        folder.join("helm_python").is_dir(),
        "{} is not there: ./test installs it, by python3 -m pip install --require-hashes --target {0} -r {requirements}",
        folder.display()
    );
    folder
}

/// The program that does what the words for `helm` say.
pub(crate) fn helm_script() -> PathBuf {
    repository().join("crates/cli/tests/deploy/helm.py")
}

/// Runs `helm` with the words of a shell's line, on the chart `CHART`.
pub(crate) fn helm(line: &str, kubeconfig: &Path, values: &Value) -> Finished {
    let scratch = Scratch::new();
    let values = scratch.write("values.json", values.to_string());
    let chart = deploy("helm/portcullis");
    let words = line.split(' ').map(|word| if word == "CHART" { chart.to_str().unwrap() } else { word });
    let mut command = Command::new("/usr/bin/python3");
    command.arg(helm_script()).args(words).env("KUBECONFIG", kubeconfig).env("HOME", scratch.path());
    command.env("PYTHONPATH", helm_library()).env("PYTHONDONTWRITEBYTECODE", "1");
    if line.contains("CHART") {
        command.arg("-f").arg(values);
    }
    Finished::of(&mut command)
}

/// Renders the chart with these values.
pub(crate) fn template(values: &Value) -> String {
    helm("template portcullis CHART", Path::new("none"), values).ok()
}
