//! The expectations are those of kube-apiserver's own checks of these files, or follow from what Kubernetes documents.

use serde_json::{Value, json};

use super::document::MAX_BYTES;
use super::*;

fn no_files(path: &str) -> Result<Vec<u8>, String> {
    Err(format!("nobody asked for {path}"))
}

fn of(plugins: Value) -> Result<AdmissionConfiguration, String> {
    let document = json!({
        "apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": plugins,
    });
    AdmissionConfiguration::read(document.to_string().as_bytes(), no_files).map_err(|error| error.to_string())
}

fn pod_security(fields: Value) -> Result<PodSecurity, String> {
    let mut document =
        json!({"apiVersion": "pod-security.admission.config.k8s.io/v1", "kind": "PodSecurityConfiguration"});
    document.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    of(json!([{"name": "PodSecurity", "configuration": document}])).map(|read| read.pod_security)
}

fn standards(read: &PodSecurity) -> [String; 3] {
    [read.defaults.enforce, read.defaults.audit, read.defaults.warn].map(|standard| standard.to_string())
}

/// The example of the documentation of Kubernetes, in all versions that it names.
#[test]
fn the_documented_file_is_read_in_every_version() {
    for (outer, inner) in [
        ("apiserver.config.k8s.io/v1", "v1"),
        ("apiserver.config.k8s.io/v1", "v1beta1"),
        ("apiserver.k8s.io/v1alpha1", "v1alpha1"),
    ] {
        let text = format!(
            r#"
apiVersion: {outer}
kind: AdmissionConfiguration
plugins:
- name: PodSecurity
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/{inner}
    kind: PodSecurityConfiguration
    defaults:
      enforce: "baseline"
      enforce-version: "v1.7"
      audit: "restricted"
      audit-version: "latest"
    exemptions:
      usernames: [alice, "system:serviceaccount:a:b"]
      runtimeClasses: [special.example.com]
      namespaces: [kube-system]
"#
        );
        let read = AdmissionConfiguration::read(text.as_bytes(), no_files).unwrap().pod_security;
        assert_eq!(standards(&read), ["baseline:v1.7", "restricted:latest", "privileged:latest"]);
        assert!(read.exempts_user("alice") && read.exempts_user("system:serviceaccount:a:b"));
        assert!(read.exempts_namespace("kube-system") && !read.exempts_namespace("alice"));
        assert!(read.runtime_classes.contains("special.example.com") && !read.runtime_classes.contains(""));
        assert!(!read.exempts_user("") && !read.exempts_namespace(""));
    }
}

#[test]
fn the_page_about_namespaces_shows_a_file_that_is_read() {
    let page = include_str!("../../../../../docs/namespaces.md");
    let file = page.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let read = AdmissionConfiguration::read(file.as_bytes(), no_files).unwrap().pod_security;
    assert_eq!(standards(&read), ["baseline:v1.36", "privileged:latest", "restricted:latest"]);
    assert!(read.exempts_namespace("kube-system") && read.runtime_classes.contains("sandbox"));
}

#[test]
fn what_is_not_configured_is_as_without_a_file() {
    let nothing = standards(&AdmissionConfiguration::default().pod_security);
    assert_eq!(nothing, ["privileged:latest", "privileged:latest", "privileged:latest"]);
    for plugins in [
        json!([]),
        json!(null),
        json!([{"name": "PodSecurity"}]),
        json!([{"name": "PodSecurity", "path": "", "configuration": null}]),
        json!([{"name": "MutatingAdmissionWebhook"}, {"name": "DefaultIngressClass"}]),
    ] {
        assert_eq!(standards(&of(plugins.clone()).unwrap().pod_security), nothing, "{plugins}");
    }
    let empty = json!({"defaults": {"enforce": ""}, "exemptions": {"usernames": null}});
    assert_eq!(standards(&pod_security(empty).unwrap()), nothing);
}

#[test]
fn a_path_is_that_of_a_file_beside_and_what_is_embedded_goes_before_it() {
    let directory = std::env::temp_dir().join(format!("portcullis-admission-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let plugin = "apiVersion: pod-security.admission.config.k8s.io/v1\nkind: PodSecurityConfiguration\n\
                  defaults: {enforce: baseline}\n";
    let file = |plugin: &str| {
        format!("apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins: [{plugin}]\n")
    };
    std::fs::write(directory.join("pods.yaml"), plugin).unwrap();
    let load = |text: String| {
        let path = directory.join("admission.yaml");
        std::fs::write(&path, text).unwrap();
        AdmissionConfiguration::load(&path).map(|read| standards(&read.pod_security)[0].clone())
    };
    assert_eq!(load(file("{name: PodSecurity, path: pods.yaml}")).unwrap(), "baseline:latest");
    let absolute = directory.join("pods.yaml").display().to_string();
    assert_eq!(load(file(&format!("{{name: PodSecurity, path: {absolute}}}"))).unwrap(), "baseline:latest");
    let embedded = "{name: PodSecurity, path: nowhere.yaml, configuration: {apiVersion: \
                    pod-security.admission.config.k8s.io/v1, kind: PodSecurityConfiguration, defaults: {enforce: restricted}}}";
    assert_eq!(load(file(embedded)).unwrap(), "restricted:latest");
    let error = load(file("{name: PodSecurity, path: nowhere.yaml}")).unwrap_err().to_string();
    assert!(error.starts_with("plugins[0].path: \"nowhere.yaml\": cannot be read: "), "{error}");
    let missing = AdmissionConfiguration::load(&directory.join("missing.yaml")).unwrap_err().to_string();
    assert!(missing.starts_with("cannot be read: "), "{missing}");
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn files_that_are_something_else_are_refused() {
    for (text, why) in [
        ("", "must be one object"),
        ("[]", "must be one object"),
        ("{}", "expected AdmissionConfiguration in apiserver.config.k8s.io/v1 or"),
        (r#"{"apiVersion":"apiserver.config.k8s.io/v99","kind":"AdmissionConfiguration"}"#, "v99"),
        (r#"{"apiVersion":"apiserver.config.k8s.io/v1","kind":"Some"}"#, "\"Some\""),
        (
            r#"{"apiVersion":"apiserver.config.k8s.io/v1","kind":"AdmissionConfiguration","plugin":[]}"#,
            "`plugin`",
        ),
        (
            r#"{"apiVersion":"apiserver.config.k8s.io/v1","kind":"AdmissionConfiguration","plugins":[[]]}"#,
            "sequence",
        ),
        (r#"{"kind":"AdmissionConfiguration","kind":"AdmissionConfiguration"}"#, "kind"),
        ("podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: a}", "expected AdmissionConfiguration"),
        ("\u{0}", ""),
    ] {
        let error = AdmissionConfiguration::read(text.as_bytes(), no_files).unwrap_err();
        assert!(matches!(error, ConfigurationError::Unreadable(_)), "{text}");
        assert!(error.to_string().contains(why), "{text}: {error}");
    }
    assert!(AdmissionConfiguration::read(&[0xff, 0xfe], no_files).is_err());
    let large = vec![b' '; MAX_BYTES + 1];
    assert!(AdmissionConfiguration::read(&large, no_files).unwrap_err().to_string().contains("larger than"));
}

#[test]
fn plugins_that_would_not_do_what_is_written_are_refused() {
    let configuration = json!({"apiVersion": "v1", "kind": "Any"});
    for (plugins, why) in [
        (
            json!([{"name": "podsecurity"}]),
            "plugins[0].name: unknown plugin \"podsecurity\"; there are Namespace",
        ),
        (json!([{}]), "plugins[0].name: unknown plugin \"\""),
        (
            json!([{"name": "ImagePolicyWebhook"}]),
            "plugins[0].name: ImagePolicyWebhook is not implemented here",
        ),
        (json!([{"name": "EventRateLimit"}]), "EventRateLimit is not implemented here"),
        (json!([{"name": "PodNodeSelector"}]), "PodNodeSelector is not implemented here"),
        (
            json!([{"name": "PodSecurity"}, {"name": "PodSecurity"}]),
            "plugins[1].name: \"PodSecurity\" is configured twice",
        ),
        (
            json!([{"name": "ServiceAccount", "configuration": configuration}]),
            "plugins[0].configuration: ServiceAccount reads no configuration here",
        ),
        (
            json!([{"name": "ValidatingAdmissionWebhook", "configuration": {
                "apiVersion": "apiserver.config.k8s.io/v1", "kind": "WebhookAdmissionConfiguration",
                "kubeConfigFile": "/k",
            }}]),
            "plugins[0].configuration: admission webhooks are shown no credentials here",
        ),
    ] {
        let error = of(plugins.clone()).unwrap_err();
        assert!(error.contains(why), "{plugins}: {error}");
    }
}

/// The words of the errors are those of k8s.io/pod-security-admission.
#[test]
fn all_faults_of_a_configuration_are_told_with_their_fields() {
    let error = pod_security(json!({
        "defaults": {"enforce": "Baseline", "warn-version": "1.30"},
        "exemptions": {
            "usernames": ["a", "", "a"],
            "namespaces": ["kube-system", "kube.system", "kube-system"],
            "runtimeClasses": ["r", "R", "r", "a_b"],
        },
    }))
    .unwrap_err();
    let told = [
        "plugins[0].configuration: defaults.enforce: Invalid value: \"Baseline\": must be one of privileged, baseline, restricted",
        "defaults.warn-version: Invalid value: \"1.30\": must be \"latest\" or \"v1.x\"",
        "exemptions.namespaces[1]: Invalid value: \"kube.system\": must not contain dots",
        "exemptions.namespaces[2]: Duplicate value: \"kube-system\"",
        "exemptions.runtimeClasses[1]: Invalid value: \"R\": a lowercase RFC 1123 subdomain",
        "exemptions.runtimeClasses[2]: Duplicate value: \"r\"",
        "exemptions.runtimeClasses[3]: Invalid value: \"a_b\"",
        "exemptions.usernames[1]: Required value",
        "exemptions.usernames[2]: Duplicate value: \"a\"",
    ];
    for fault in told {
        assert!(error.contains(fault), "{fault}: {error}");
    }
    for (fields, why) in [
        (json!({"deflaults": {}}), "unknown field `deflaults`"),
        (json!({"defaults": {"enforceVersion": "latest"}}), "unknown field `enforceVersion`"),
        (json!({"exemptions": {"groups": []}}), "unknown field `groups`"),
        (json!({"exemptions": []}), "invalid type"),
        (json!({"defaults": {"enforce": 1}}), "invalid type"),
        (json!({"kind": "SomeConfiguration"}), "\"SomeConfiguration\""),
        (json!({"apiVersion": "pod-security.admission.config.k8s.io/v99"}), "v99"),
    ] {
        let error = pod_security(fields.clone()).unwrap_err();
        assert!(error.starts_with("plugins[0].configuration: ") && error.contains(why), "{fields}: {error}");
    }
}

fn quota(version: &str, kind: &str, limited: &Value) -> Result<Arc<[LimitedResource]>, String> {
    let configuration = json!({"apiVersion": version, "kind": kind, "limitedResources": limited});
    of(json!([{"name": "ResourceQuota", "configuration": configuration}])).map(|read| read.limited)
}

/// The example of the documentation of Kubernetes, and the older names of the kind.
#[test]
fn limited_resources_are_read_in_every_version() {
    let limited = json!([
        {"resource": "pods", "matchScopes": [
            {"scopeName": "PriorityClass", "operator": "In", "values": ["cluster-services"]},
        ]},
        {"apiGroup": "apps", "resource": "deployments", "matchContains": ["count/"]},
    ]);
    for (version, kind) in [
        ("apiserver.config.k8s.io/v1", "ResourceQuotaConfiguration"),
        ("resourcequota.admission.k8s.io/v1beta1", "Configuration"),
        ("resourcequota.admission.k8s.io/v1alpha1", "Configuration"),
    ] {
        let read = quota(version, kind, &limited).unwrap();
        assert_eq!(read.len(), 2);
        assert_eq!((&*read[0].group, &*read[0].resource), ("", "pods"));
        assert_eq!(Value::Object(read[0].scopes[0].clone()), limited[0]["matchScopes"][0]);
        assert_eq!((&*read[1].group, &*read[1].resource), ("apps", "deployments"));
        assert_eq!(read[1].contains, ["count/"]);
    }
    assert!(
        quota("apiserver.config.k8s.io/v1", "ResourceQuotaConfiguration", &Value::Null).unwrap().is_empty()
    );
    assert!(AdmissionConfiguration::default().limited.is_empty());
    assert!(quota("apiserver.config.k8s.io/v1", "Configuration", &limited).is_err());
}

#[test]
fn limits_that_would_limit_nothing_are_refused() {
    let scope = |name: &str, operator: &str, values: &[&str]| json!([{"resource": "pods", "matchScopes": [{"scopeName": name, "operator": operator, "values": values}]}]);
    let many = |count: usize| vec![json!("x"); count];
    for (limited, why) in [
        (json!([{"matchContains": ["cpu"]}]), "limitedResources[0].resource: Required value"),
        (
            scope("Priority", "Exists", &[]),
            "limitedResources[0].matchScopes[0].scopeName: Invalid value: \"Priority\"",
        ),
        (scope("PriorityClass", "in", &["a"]), "matchScopes[0].operator: Invalid value: \"in\""),
        (scope("PriorityClass", "In", &[]), "matchScopes[0].values: Required value"),
        (
            scope("BestEffort", "In", &["a"]),
            "matchScopes[0].operator: Invalid value: \"In\": must be 'Exists'",
        ),
        (json!([{"resource": "pods", "matchContain": []}]), "unknown field `matchContain`"),
        (json!([{"resource": "pods", "matchContains": many(101)}]), "[*].matchContains: Too many: 101"),
        (
            json!([{"resource": "a", "matchContains": many(60)}, {"resource": "b", "matchContains": many(60)}]),
            "[*].matchContains: Too many: 120",
        ),
        (Value::from(vec![json!({"resource": "pods"}); 101]), "limitedResources: Too many: 101"),
        (scope("PriorityClass", "In", &["v"; 501]), "[*].matchScopes[*].values: Too many: 501"),
    ] {
        let error = quota("apiserver.config.k8s.io/v1", "ResourceQuotaConfiguration", &limited).unwrap_err();
        assert!(error.starts_with("plugins[0].configuration: ") && error.contains(why), "{why}: {error}");
    }
}

#[test]
fn what_is_told_of_a_bad_file_is_bounded() {
    let names: Vec<String> = (0..100_000).map(|at| format!("BAD_{at}")).collect();
    let error = pod_security(json!({"exemptions": {"namespaces": names}})).unwrap_err();
    assert!(error.ends_with("there are more errors") && error.len() < 1 << 20, "{}", error.len());
    let plugins: Vec<Value> = (0..100_000).map(|_| json!({})).collect();
    let Err(ConfigurationError::Invalid(errors)) = AdmissionConfiguration::read(
        json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": plugins})
            .to_string()
            .as_bytes(),
        no_files,
    ) else {
        panic!("no plugin has a name");
    };
    assert!(errors.len() <= MAX_ERRORS + 1);
}
