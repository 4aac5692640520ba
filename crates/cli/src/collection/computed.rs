//! Fields of a reduced object that say less than the fields that they are computed from (AU-20).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use portcullis_pki::csr::UncheckedCsr;
use portcullis_policy::audit::state::KubeletSettings;
use portcullis_server::state::yaml_to_json;
use serde_json::{Map, Value, json};

use super::keep::Keep;

/// The programs of a control plane that the audit tells apart (AU-15, E31).
const PROGRAMS: [&str; 3] = ["kube-apiserver", "kube-controller-manager", "etcd"];

/// The flags of a kube-apiserver that are kept with their values: no addresses but issuers, and no secrets. Of others only the
/// name is kept.
const FLAGS: [&str; 31] = [
    "admission-control-config-file",
    "allow-privileged",
    "anonymous-auth",
    "api-audiences",
    "audit-log-path",
    "audit-policy-file",
    "authentication-config",
    "authentication-token-webhook-config-file",
    "authorization-config",
    "authorization-mode",
    "authorization-policy-file",
    "authorization-webhook-config-file",
    "client-ca-file",
    "disable-admission-plugins",
    "enable-admission-plugins",
    "enable-aggregator-routing",
    "enable-bootstrap-token-auth",
    "encryption-provider-config",
    "feature-gates",
    "kubelet-certificate-authority",
    "kubelet-client-certificate",
    "kubelet-https",
    "profiling",
    "requestheader-allowed-names",
    "requestheader-client-ca-file",
    "runtime-config",
    "service-account-extend-token-expiration",
    "service-account-issuer",
    "service-account-lookup",
    "tls-min-version",
    "token-auth-file",
];

/// The fields of a kubelet configuration that are kept.
const KUBELET: [&str; 28] = [
    "apiVersion",
    "kind",
    "authentication.anonymous",
    "authentication.webhook",
    "authentication.x509.clientCAFile",
    "authorization",
    "enableContentionProfiling",
    "enableDebugFlagsHandler",
    "enableDebuggingHandlers",
    "enableProfilingHandler",
    "enableServer",
    "enableSystemLogHandler",
    "enableSystemLogQuery",
    "eventRecordQPS",
    "featureGates",
    "healthzPort",
    "makeIPTablesUtilChains",
    "port",
    "protectKernelDefaults",
    "readOnlyPort",
    "rotateCertificates",
    "seccompDefault",
    "serverTLSBootstrap",
    "staticPodPath",
    "tlsCertFile",
    "tlsCipherSuites",
    "tlsMinVersion",
    "tlsPrivateKeyFile",
];

/// The annotations that are kept: those that the audit reads. Others may hold anything.
const ANNOTATIONS: [&str; 4] = [
    "kubernetes.io/config.mirror",
    "kubernetes.io/config.source",
    "kubernetes.io/service-account.name",
    "rbac.authorization.kubernetes.io/autoupdate",
];

/// Computes a field of an object: its name and its value.
pub(super) fn field(name: &str, object: &Map<String, Value>) -> Option<(String, Value)> {
    match name {
        "<annotations>" => {
            let annotations = object.get("annotations")?.as_object()?.iter();
            let kept: Map<_, _> = annotations
                .filter(|(name, _)| ANNOTATIONS.contains(&name.as_str()))
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            (!kept.is_empty()).then(|| ("annotations".to_owned(), Value::Object(kept)))
        }
        "<command>" => Some(("command".to_owned(), command(object)?)),
        "<commandIsReduced>" => command(object).map(|_| ("commandIsReduced".to_owned(), Value::Bool(true))),
        "<requested>" => Some(("requested".to_owned(), requested(object.get("request")?.as_str()?)?)),
        "<issued>" => {
            let is_issued = object.get("certificate")?.as_str().is_some_and(|text| !text.is_empty());
            is_issued.then(|| ("issued".to_owned(), Value::Bool(true)))
        }
        "<kubelet>" => Some(("kubelet".to_owned(), kubelet(object.get("kubelet")?.as_str()?)?)),
        _ => None,
    }
}

/// The command line of a container of the control plane: the program, and of a kube-apiserver its flags. Command lines of others
/// may hold passwords, and nothing reads them.
fn command(container: &Map<String, Value>) -> Option<Value> {
    let words = ["command", "args"].into_iter().filter_map(|field| container.get(field)?.as_array());
    let mut words = words.flatten().map(|word| word.as_str().unwrap_or_default()).peekable();
    let program = words.next()?;
    let name = program.rsplit('/').next().unwrap_or_default();
    if !PROGRAMS.contains(&name) {
        return None;
    }
    let mut kept = vec![program.to_owned()];
    while let Some(word) = words.next().filter(|_| name == "kube-apiserver") {
        let Some(flag) = word.strip_prefix("--").or_else(|| word.strip_prefix('-')) else { continue };
        let (flag, value) = match flag.split_once('=') {
            Some((flag, value)) => (flag, Some(value)),
            None => (flag, words.next_if(|next| !next.starts_with('-'))),
        };
        kept.push(match value.filter(|_| FLAGS.contains(&flag)) {
            Some(value) => format!("--{flag}={value}"),
            None => format!("--{flag}"),
        });
    }
    Some(json!(kept))
}

/// The common name and the organizations of a certificate request in base64; none if one of them cannot be read. Then nothing is said
/// of the request, rather than half of it.
fn requested(base64: &str) -> Option<Value> {
    let request = UncheckedCsr::parse(&BASE64_STANDARD.decode(base64).ok()?).ok()?;
    let subject = request.subject();
    Some(json!({
        "commonName": subject.common_name().ok()?,
        "organizations": subject.organizations().ok()?,
    }))
}

/// The answer of `/configz` of a kubelet, reduced; or why it cannot be used. It is never quoted: the kubelet may be anybody's.
pub(super) fn configz(answer: &str) -> Result<String, String> {
    let mut document: Value = serde_json::from_str(answer).map_err(|_| "the answer is no JSON".to_owned())?;
    let config = document.get_mut("kubeletconfig").map(Value::take).filter(Value::is_object);
    let config = config.ok_or("the answer has no kubeletconfig")?;
    let kept = Keep::of(KUBELET, |_, _| None).reduce(config).unwrap_or_default();
    KubeletSettings::of(&kept).map_err(|_| "a field that is read is of another type".to_owned())?;
    Ok(json!({"kubeletconfig": kept}).to_string())
}

/// A kubelet configuration in JSON; none if it is not YAML.
fn kubelet(yaml: &str) -> Option<Value> {
    let document = serde_json::from_str(&yaml_to_json(yaml).ok()?).ok()?;
    Keep::of(KUBELET, |_, _| None).reduce(document).ok().map(|kept| Value::String(kept.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(container: Value) -> Option<Value> {
        command(container.as_object()?)
    }

    #[test]
    fn of_command_lines_only_flags_of_api_servers_are_kept_au_20() {
        let server = json!({
            "command": ["/usr/local/bin/kube-apiserver", "--authorization-mode", "Node,RBAC", "--advertise-address=10.0.0.1"],
            "args": ["--etcd-servers", "https://10.0.0.2", "--profiling", "--feature-gates=A=true", "-v=4", "loose"],
        });
        let kept = json!([
            "/usr/local/bin/kube-apiserver",
            "--authorization-mode=Node,RBAC",
            "--advertise-address",
            "--etcd-servers",
            "--profiling",
            "--feature-gates=A=true",
            "--v",
        ]);
        assert_eq!(words(server), Some(kept));
        assert_eq!(words(json!({"args": ["etcd", "--initial-cluster-token=s3cret"]})), Some(json!(["etcd"])));
        assert_eq!(words(json!({"command": ["sh", "-c", "kube-apiserver --token=s3cret"]})), None);
        assert_eq!(words(json!({"image": "x"})), None);
    }

    #[test]
    fn of_kubelet_configurations_no_addresses_and_headers_are_kept_au_20() {
        let text = "kind: KubeletConfiguration\nclusterDNS: [10.96.0.10]\nreadOnlyPort: 10255\n\
            staticPodURLHeader: {Authorization: [s3cret]}\nauthentication: {anonymous: {enabled: true}}\n";
        let kept = r#"{"authentication":{"anonymous":{"enabled":true}},"kind":"KubeletConfiguration","readOnlyPort":10255}"#;
        assert_eq!(kubelet(text), Some(json!(kept)));
        assert_eq!(kubelet("["), None);
    }
}
