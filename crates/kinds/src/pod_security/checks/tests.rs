//! The checks against the table of the Pod Security Standards: for each field what is allowed, and what is not.

use serde_json::{Value, json};

use super::*;
use crate::Map;

/// A pod that meets the strictest standard.
fn good() -> Value {
    json!({
        "metadata": {"name": "pod", "annotations": {}},
        "spec": {
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [container("a")],
            "initContainers": [container("b")],
            "ephemeralContainers": [container("c")],
        },
    })
}

fn container(name: &str) -> Value {
    json!({
        "name": name,
        "image": "image",
        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
    })
}

/// The reasons of the violations of a pod.
fn reasons(level: Level, version: Version, pod: &Value) -> Vec<&'static str> {
    let pod: &Map = pod.as_object().unwrap();
    let found = violations(Standard { level, version }, Pod::of(pod));
    found.into_iter().map(|violation| violation.reason).collect()
}

/// A good pod with a value at a path; nothing removes the member.
fn with(path: &str, value: Value) -> Value {
    let mut pod = good();
    let (parents, last) = path.rsplit_once('/').unwrap();
    let mut at = &mut pod;
    for member in parents.split('/') {
        at = match member.parse::<usize>() {
            Ok(place) => &mut at[place],
            Err(_) => &mut at[member],
        };
        if at.is_null() {
            *at = json!({});
        }
    }
    match value {
        Value::Null => drop(at.as_object_mut().unwrap().remove(last)),
        value => at[last] = value,
    }
    pod
}

#[test]
fn a_careful_pod_meets_every_standard_of_every_version() {
    for level in [Level::Privileged, Level::Baseline, Level::Restricted] {
        for version in (0..40).map(Version::Minor).chain([Version::Latest]) {
            assert_eq!(reasons(level, version, &good()), [""; 0], "{level:?} {version}");
        }
    }
}

#[test]
fn privileged_takes_what_baseline_refuses() {
    let refused = [
        ("spec/hostNetwork", json!(true), "host namespaces"),
        ("spec/hostPID", json!(true), "host namespaces"),
        ("spec/hostIPC", json!(true), "host namespaces"),
        ("spec/containers/0/securityContext/privileged", json!(true), "privileged"),
        ("spec/initContainers/0/securityContext/privileged", json!(true), "privileged"),
        ("spec/ephemeralContainers/0/securityContext/privileged", json!(true), "privileged"),
        (
            "spec/containers/0/securityContext/capabilities/add",
            json!(["NET_RAW"]),
            "non-default capabilities",
        ),
        (
            "spec/containers/0/securityContext/capabilities/add",
            json!(["CHOWN", "ALL"]),
            "non-default capabilities",
        ),
        ("spec/volumes", json!([{"name": "v", "hostPath": {"path": "/"}}]), "hostPath volumes"),
        ("spec/containers/0/ports", json!([{"containerPort": 1}, {"hostPort": 80}]), "hostPort"),
        (
            "spec/containers/0/livenessProbe",
            json!({"httpGet": {"host": "10.0.0.1"}}),
            "probe or lifecycle host",
        ),
        (
            "spec/containers/0/lifecycle",
            json!({"preStop": {"tcpSocket": {"host": "h"}}}),
            "probe or lifecycle host",
        ),
        ("spec/containers/0/securityContext/procMount", json!("Unmasked"), "procMount"),
        ("spec/securityContext/seLinuxOptions", json!({"type": "spc_t"}), "seLinuxOptions"),
        ("spec/securityContext/seLinuxOptions", json!({"user": "system_u"}), "seLinuxOptions"),
        ("spec/containers/0/securityContext/seLinuxOptions", json!({"role": "r"}), "seLinuxOptions"),
        ("spec/securityContext/seccompProfile", json!({"type": "Unconfined"}), "seccompProfile"),
        ("spec/containers/0/securityContext/seccompProfile", json!({"type": "Unconfined"}), "seccompProfile"),
        ("spec/securityContext/appArmorProfile", json!({"type": "Unconfined"}), "forbidden AppArmor profile"),
        ("spec/securityContext/sysctls", json!([{"name": "kernel.msgmax"}]), "forbidden sysctls"),
        ("spec/securityContext/windowsOptions", json!({"hostProcess": true}), "hostProcess"),
        ("spec/containers/0/securityContext/windowsOptions", json!({"hostProcess": true}), "hostProcess"),
        (
            "metadata/annotations",
            json!({"container.apparmor.security.beta.kubernetes.io/a": "unconfined"}),
            "forbidden AppArmor profile",
        ),
    ];
    for (path, value, reason) in refused {
        let pod = with(path, value.clone());
        assert_eq!(reasons(Level::Privileged, Version::Latest, &pod), [""; 0], "{path} {value}");
        assert_eq!(reasons(Level::Baseline, Version::Latest, &pod), [reason], "{path} {value}");
        assert!(!reasons(Level::Restricted, Version::Latest, &pod).is_empty(), "{path} {value}");
    }
}

#[test]
fn baseline_takes_what_only_restricted_refuses() {
    let refused = [
        (
            "spec/containers/0/securityContext/allowPrivilegeEscalation",
            Value::Null,
            "allowPrivilegeEscalation != false",
        ),
        (
            "spec/containers/0/securityContext/allowPrivilegeEscalation",
            json!(true),
            "allowPrivilegeEscalation != false",
        ),
        ("spec/containers/0/securityContext/capabilities", Value::Null, "unrestricted capabilities"),
        (
            "spec/containers/0/securityContext/capabilities/drop",
            json!(["NET_RAW"]),
            "unrestricted capabilities",
        ),
        ("spec/containers/0/securityContext/capabilities/add", json!(["CHOWN"]), "unrestricted capabilities"),
        (
            "spec/volumes",
            json!([{"name": "v", "nfs": {"server": "s", "path": "/"}}]),
            "restricted volume types",
        ),
        ("spec/securityContext/runAsNonRoot", Value::Null, "runAsNonRoot != true"),
        ("spec/securityContext/runAsNonRoot", json!(false), "runAsNonRoot != true"),
        ("spec/containers/0/securityContext/runAsNonRoot", json!(false), "runAsNonRoot != true"),
        ("spec/securityContext/runAsUser", json!(0), "runAsUser=0"),
        ("spec/containers/0/securityContext/runAsUser", json!(0), "runAsUser=0"),
        ("spec/securityContext/seccompProfile", Value::Null, "seccompProfile"),
    ];
    for (path, value, reason) in refused {
        let pod = with(path, value.clone());
        assert_eq!(reasons(Level::Baseline, Version::Latest, &pod), [""; 0], "{path} {value}");
        assert_eq!(reasons(Level::Restricted, Version::Latest, &pod), [reason], "{path} {value}");
    }
}

#[test]
fn restricted_takes_what_the_standard_allows() {
    let volumes: Vec<Value> = [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ]
    .iter()
    .map(|kind| json!({"name": kind, *kind: {}}))
    .collect();
    let allowed = [
        ("spec/volumes", json!(volumes)),
        ("spec/containers/0/securityContext/capabilities/add", json!(["NET_BIND_SERVICE"])),
        ("spec/containers/0/securityContext/runAsNonRoot", json!(true)),
        ("spec/containers/0/securityContext/procMount", json!("Default")),
        ("spec/containers/0/ports", json!([{"containerPort": 80, "hostPort": 0}])),
        ("spec/securityContext/seccompProfile", json!({"type": "Localhost", "localhostProfile": "p"})),
        ("spec/securityContext/appArmorProfile", json!({"type": "RuntimeDefault"})),
        ("spec/securityContext/seLinuxOptions", json!({"type": "container_engine_t", "level": "s0"})),
        ("spec/securityContext/sysctls", json!([{"name": "net.ipv4.tcp_rmem"}])),
        ("spec/securityContext/windowsOptions", json!({"hostProcess": false})),
        (
            "metadata/annotations",
            json!({
                "container.apparmor.security.beta.kubernetes.io/a": "runtime/default",
                "container.apparmor.security.beta.kubernetes.io/b": "localhost/p",
            }),
        ),
    ];
    for (path, value) in allowed {
        let pod = with(path, value.clone());
        assert_eq!(reasons(Level::Restricted, Version::Latest, &pod), [""; 0], "{path} {value}");
    }
}

/// A change to a good pod, the level, the versions for which it is a violation, and its reason.
#[test]
fn checks_begin_and_end_with_the_version_that_the_standard_names() {
    const END: u32 = 40;
    let sysctl = |name: &str| json!([{"name": name}]);
    let cases = [
        (Level::Baseline, "spec/containers/0/livenessProbe", json!({"httpGet": {"host": "h"}}), 34..END),
        (
            Level::Baseline,
            "spec/securityContext/seLinuxOptions",
            json!({"type": "container_engine_t"}),
            0..31,
        ),
        (Level::Baseline, "spec/securityContext/seccompProfile", json!({"type": "Unconfined"}), 19..END),
        (
            Level::Baseline,
            "metadata/annotations",
            json!({"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}),
            0..19,
        ),
        (Level::Baseline, "spec/securityContext/sysctls", sysctl("net.ipv4.ip_local_reserved_ports"), 0..27),
        (Level::Baseline, "spec/securityContext/sysctls", sysctl("net.ipv4.tcp_keepalive_time"), 0..29),
        (Level::Baseline, "spec/securityContext/sysctls", sysctl("net.ipv4.tcp_wmem"), 0..32),
        (
            Level::Restricted,
            "spec/containers/0/securityContext/allowPrivilegeEscalation",
            json!(true),
            8..END,
        ),
        (Level::Restricted, "spec/containers/0/securityContext/capabilities", Value::Null, 22..END),
        (Level::Restricted, "spec/containers/0/securityContext/capabilities/add", json!(["NET_RAW"]), 0..END),
        (Level::Restricted, "spec/containers/0/securityContext/capabilities/add", json!(["CHOWN"]), 22..END),
        (Level::Restricted, "spec/securityContext/runAsUser", json!(0), 23..END),
        (Level::Restricted, "spec/securityContext/seccompProfile", Value::Null, 19..END),
    ];
    for (level, path, value, versions) in cases {
        let pod = with(path, value.clone());
        for minor in 0..END {
            let found = reasons(level, Version::Minor(minor), &pod);
            assert_eq!(
                found.len(),
                usize::from(versions.contains(&minor)),
                "{path} {value} v1.{minor}: {found:?}"
            );
        }
        let latest = usize::from(versions.end == END);
        assert_eq!(reasons(level, Version::Latest, &pod).len(), latest, "{path} {value}");
    }
}

#[test]
fn pods_of_windows_and_with_own_users_are_spared_what_makes_no_sense_there() {
    let mut windows = good();
    windows["spec"]["os"] = json!({"name": "windows"});
    windows["spec"]["securityContext"] = json!({"runAsNonRoot": true});
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        windows["spec"][list][0]["securityContext"] = json!({});
    }
    assert_eq!(reasons(Level::Restricted, Version::Minor(25), &windows), [""; 0]);
    assert_eq!(reasons(Level::Restricted, Version::Minor(24), &windows).len(), 3);

    let mut own_users = with("spec/securityContext/runAsUser", json!(0));
    own_users["spec"]["securityContext"]["runAsNonRoot"] = json!(false);
    own_users["spec"]["containers"][0]["securityContext"]["procMount"] = json!("Unmasked");
    assert_eq!(reasons(Level::Baseline, Version::Latest, &own_users), ["procMount"]);
    own_users["spec"]["hostUsers"] = json!(false);
    assert_eq!(reasons(Level::Baseline, Version::Latest, &own_users), [""; 0]);
    assert_eq!(reasons(Level::Restricted, Version::Latest, &own_users), ["procMount"]);
    assert_eq!(reasons(Level::Restricted, Version::Minor(34), &own_users).len(), 3);
}

#[test]
fn details_name_the_containers_and_stay_short() {
    let mut pod = good();
    pod["spec"]["hostNetwork"] = json!(true);
    pod["spec"]["hostPID"] = json!(true);
    for list in ["containers", "initContainers"] {
        pod["spec"][list][0]["securityContext"]["privileged"] = json!(true);
    }
    let standard = Standard { level: Level::Baseline, version: Version::Latest };
    let shown: Vec<String> =
        violations(standard, Pod::of(pod.as_object().unwrap())).iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "host namespaces (hostNetwork=true, hostPID=true)",
            r#"privileged (containers "b", "a" must not set securityContext.privileged=true)"#,
        ]
    );
    let many: Vec<Value> = (0..10_000)
        .map(|i| json!({"name": format!("container-{i}"), "securityContext": {"privileged": true}}))
        .collect();
    let crowded = with("spec/containers", json!(many));
    let found = violations(standard, Pod::of(crowded.as_object().unwrap()));
    assert!(found[0].detail.len() < 1_000, "{}", found[0].detail);
    assert!(found[0].detail.contains("and 9980 more"), "{}", found[0].detail);
}

#[test]
fn every_check_is_of_a_level_and_in_the_order_of_its_versions() {
    for check in CHECKS {
        assert!(check.level > Level::Privileged);
        assert!(check.rules.windows(2).all(|pair| pair[0].0 < pair[1].0), "{}", check.id);
        let replaced = check.replaces.map(|id| CHECKS.iter().find(|other| other.id == id));
        assert!(
            replaced.is_none_or(|found| found.is_some_and(|found| found.level < check.level)),
            "{}",
            check.id
        );
    }
}
