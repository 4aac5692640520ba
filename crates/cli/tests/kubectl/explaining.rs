//! `kubectl explain`, by `/openapi/v3` and, as old versions do it, by `/openapi/v2`; and the names of types that a cluster tells.

use portcullis_testkit::program;
use portcullis_testkit::tool::Finished;

use crate::kubectl::support::Served;

/// The text that kubectl prints for a field without a description.
const NOTHING: [&str; 2] = ["<empty>", "<no description>"];

/// A kind with descriptions of its own, and with what Swagger cannot say.
const CRON_TABS: &str = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crontabs.stable.example.com}
spec:
  group: stable.example.com
  names: {plural: crontabs, kind: CronTab}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        description: Commands at fixed times.
        properties:
          spec:
            type: object
            description: When, and which.
            properties:
              replicas: {type: integer, nullable: true, description: How many.}
              port: {x-kubernetes-int-or-string: true, description: Where.}
              more: {type: object, x-kubernetes-preserve-unknown-fields: true, description: What else.}
              limits: {type: object, additionalProperties: {type: string, maxLength: 3}, description: How much.}
";

/// As kubectl does, which asks the server for its types.
#[test]
fn a_type_of_the_cluster_is_known_by_all_its_names() {
    let served = Served::start(&[]);
    let definition =
        CRON_TABS.replace("kind: CronTab}", "kind: CronTab, singular: crontab, shortNames: [ct]}");
    served.ok_with("apply -f -", &definition);
    served.ok("wait --for=condition=Established crd/crontabs.stable.example.com");
    served.ok("create role keeper --verb=watch --resource=crontabs.stable.example.com");
    served.ok("create rolebinding keeper --role=keeper --user=dora");
    let ask = |words: &str| {
        let mut command = program!().command(words.split(' '));
        Finished::of(command.env("KUBECONFIG", served.data().join("admin.kubeconfig")))
    };
    for name in
        ["crontabs", "crontab", "ct", "CronTab", "crontabs.stable.example.com", "ct.v1.stable.example.com"]
    {
        let done = ask(&format!("can-i watch {name} --as dora"));
        assert_eq!((done.code, &*done.stdout), (0, "yes\n"), "{name}: {done:?}");
        assert!(!done.stderr.contains("warning"), "{name}: {done:?}");
        let done = ask(&format!("explain watch {name} --as dora"));
        assert!(done.code == 0 && !done.stderr.contains("warning"), "{name}: {done:?}");
        let done = ask(&format!("who-can watch {name} -o name"));
        assert!(done.stdout.contains("user/dora") && !done.stderr.contains("warning"), "{name}: {done:?}");
    }
    let other = ask("can-i watch crontabs.other.example.com --as dora");
    assert_eq!((other.code, &*other.stdout), (1, "no\n"), "{other:?}");
    assert!(other.stderr.contains("unknown resource type"), "{other:?}");
}

#[test]
fn every_field_is_explained() {
    let served = Served::start(&[]);
    served.ok_with("apply -f -", CRON_TABS);
    served.ok("wait --for=condition=Established crd/crontabs.stable.example.com");
    for field in [
        "nodes",
        "nodes.spec",
        "nodes.status.nodeInfo",
        "pods.metadata",
        "pods.metadata.ownerReferences",
        "pods.spec",
        "pods.spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution.labelSelector",
        "pods.spec.containers",
        "pods.spec.containers.resources",
        "pods.spec.containers.securityContext.seccompProfile",
        "pods.spec.containers.startupProbe.httpGet.port",
        "pods.spec.volumes.projected.sources",
        "pods.status.containerStatuses.state",
        "leases.spec",
        "csinodes.spec.drivers",
        "csidrivers.spec",
        "certificatesigningrequests.spec",
        "secrets",
        "persistentvolumes.spec",
        "resourceslices.spec.devices",
        "clusterroles.rules",
        "customresourcedefinitions.spec.versions.schema.openAPIV3Schema",
        "validatingwebhookconfigurations.webhooks",
        "crontabs",
    ] {
        let text = served.ok(&format!("explain {field}"));
        assert!(text.contains("DESCRIPTION:"), "{field}: {text}");
        assert!(!NOTHING.iter().any(|nothing| text.contains(nothing)), "{field}: {text}");
    }
    let spec = served.ok("explain crontabs.spec");
    for text in ["When, and which.", "replicas\t<integer>", "How many.", "What else."] {
        assert!(spec.contains(text), "{text}: {spec}");
    }
}

#[test]
fn fields_are_explained_to_old_clients() {
    let served = Served::start(&[]);
    served.ok_with("apply -f -", CRON_TABS);
    served.ok("wait --for=condition=Established crd/crontabs.stable.example.com");
    let explain = |field: &str| {
        let text = served.ok(&format!("explain {field} --output=plaintext-openapiv2"));
        assert!(!NOTHING.iter().any(|nothing| text.contains(nothing)), "{field}: {text}");
        text
    };
    for (field, texts) in [
        ("pods", ["KIND:     Pod", "VERSION:  v1", "spec\t<Object>"].as_slice()),
        ("pods.spec.containers", &["RESOURCE: containers <[]Object>", "name\t<string> -required-"]),
        ("pods.spec.containers.resources.limits", &["FIELD:    limits <map[string]string>"]),
        ("deployments.spec.strategy.rollingUpdate.maxSurge", &["FIELD:    maxSurge <string>"]),
        ("leases.spec", &["VERSION:  coordination.k8s.io/v1", "leaseDurationSeconds\t<integer>"]),
        ("rolebindings.subjects", &["RESOURCE: subjects <[]Object>"]),
        ("nodes.status.conditions", &["lastHeartbeatTime\t<string>"]),
        ("crontabs.spec", &["When, and which.", "limits\t<map[string]string>", "How much."]),
    ] {
        let text = explain(field);
        for expected in texts {
            assert!(text.contains(expected), "{field}: {expected}: {text}");
        }
    }
    let tree = explain("pods.spec --recursive");
    assert!(tree.contains("topologySpreadConstraints\t<[]Object>"), "{tree}");
}

#[test]
fn objects_that_cannot_be_patched_are_created() {
    // kubectl looks them up in `/openapi/v2`, and may check them by it.
    let served = Served::start(&[]);
    let review = "\
apiVersion: authorization.k8s.io/v1
kind: SubjectAccessReview
spec: {user: jane, resourceAttributes: {verb: get, resource: pods}}
";
    assert_eq!(served.ok_with("create -f - -o jsonpath={.status.allowed}", review), "false");
    let review = "apiVersion: authentication.k8s.io/v1\nkind: TokenReview\nspec: {token: nobody}\n";
    assert_eq!(served.ok_with("create -f - -o jsonpath={.kind}", review), "TokenReview");
}
