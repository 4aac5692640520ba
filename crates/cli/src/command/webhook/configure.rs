//! `portcullis webhook configure`: everything that a kube-apiserver needs to ask the webhook.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::Value;

use super::rbac::{Account, RbacArgs};
use crate::failure::Failure;
use crate::limit_flags::duration;
use crate::yaml;

/// Print what a kube-apiserver and its cluster need to ask the webhook
///
/// Six files, and for each what to do with it: the configurations and kubeconfigs with which the API server asks, the admission
/// webhooks, and the rights of the webhook. Comments say what each line is for.
///
/// The webhook is asked after the modes Node and RBAC, for what these do not allow: a node is not refused any more because a
/// pod has not arrived in the API server's own memory, and a webhook that is down changes nothing else. With mode Deny among
/// its modes it is asked first, because a denial must come before what other modes allow.
///
/// Exit codes: 0 printed; 2 bad flags or input; 3 a file cannot be written.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(super) struct ConfigureArgs {
    #[command(flatten)]
    rbac: RbacArgs,

    /// The address at which API servers reach the webhook [default: that of the Service with the name and namespace of
    /// --service-account]
    #[arg(long, value_name = "HOST:PORT")]
    server: Option<String>,

    /// The authority of the webhook's serving certificate, in PEM. API servers read the same path
    #[arg(long, value_name = "FILE")]
    certificate_authority: PathBuf,

    /// The path of the API server's client certificate, on its own host
    #[arg(long, value_name = "FILE", default_value = "/etc/kubernetes/portcullis/apiserver.crt")]
    client_certificate: PathBuf,

    /// The path of the key of --client-certificate
    #[arg(long, value_name = "FILE", default_value = "/etc/kubernetes/portcullis/apiserver.key")]
    client_key: PathBuf,

    /// The folder of these files on the hosts of API servers
    #[arg(long, value_name = "DIR", default_value = "/etc/kubernetes/portcullis")]
    host_folder: PathBuf,

    /// How long an API server keeps an answer that allows: so long may a right outlive its objects
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    authorized_ttl: Duration,

    /// How long an API server keeps an answer that does not allow: so long may a node be refused what it has got meanwhile
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
    unauthorized_ttl: Duration,

    /// Write the files to this folder instead of printing them
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Example:
  portcullis webhook configure --certificate-authority ca.crt --output-dir webhook-config";

/// The port of the Service.
const PORT: u16 = 443;

/// The resources that NodeRestriction looks at, by group. Leases are left out: a node must be able to say that it lives while the
/// webhook is down, and the modes Node and RBAC restrict them already (BC-13).
const RESTRICTED: [(&str, &[&str]); 4] = [
    (
        "",
        &[
            "nodes",
            "nodes/status",
            "pods",
            "pods/status",
            "pods/eviction",
            "persistentvolumeclaims/status",
            "serviceaccounts/token",
        ],
    ),
    ("certificates.k8s.io", &["certificatesigningrequests", "podcertificaterequests"]),
    ("resource.k8s.io", &["resourceslices"]),
    ("storage.k8s.io", &["csinodes"]),
];

/// A file, and what to do with it.
struct File {
    name: &'static str,
    purpose: String,
    text: String,
}

/// Prints or writes the files.
pub(super) fn run(args: &ConfigureArgs) -> Result<ExitCode, Failure> {
    let account = args.rbac.account()?;
    let authority = std::fs::read(&args.certificate_authority).map_err(|error| {
        let path = args.certificate_authority.display();
        Failure::input(format_args!("--certificate-authority: cannot read {path}: {error}"))
    })?;
    if !authority.windows(27).any(|text| text == b"-----BEGIN CERTIFICATE-----") {
        let path = args.certificate_authority.display();
        return Err(Failure::input(format_args!(
            "--certificate-authority: {path} has no certificate in PEM"
        )));
    }
    let host = |name: &str| args.host_folder.join(name).display().to_string();
    let files = [
        File {
            name: "authorization.yaml",
            purpose: format!(
                "Copy it to {} on the host of every API server, and start them with --authorization-config and this path,\n\
                 without --authorization-mode.",
                host("authorization.yaml")
            ),
            text: authorization(args, account, &host("authorization.kubeconfig")),
        },
        File {
            name: "authorization.kubeconfig",
            purpose: format!("Copy it to {} on the same hosts.", host("authorization.kubeconfig")),
            text: kubeconfig(args, account),
        },
        File {
            name: "admission-control.yaml",
            purpose: format!(
                "Copy it to {} on the same hosts, and start the API servers with --admission-control-config-file and this path:\n\
                 without it they show admission webhooks no certificate.",
                host("admission-control.yaml")
            ),
            text: admission_control(&host("admission.kubeconfig")),
        },
        File {
            name: "admission.kubeconfig",
            purpose: format!("Copy it to {} on the same hosts.", host("admission.kubeconfig")),
            text: admission_kubeconfig(args, account),
        },
        File {
            name: "admission.yaml",
            purpose: "kubectl apply it when the webhook is ready.".to_owned(),
            text: admission(args, account, &authority),
        },
        File {
            name: "rbac.yaml",
            purpose: "kubectl apply it before the webhook starts.".to_owned(),
            text: args.rbac.text()?,
        },
    ];
    match &args.output_dir {
        Some(folder) => files.iter().try_for_each(|file| write(folder, file))?,
        None => files.iter().for_each(|file| {
            println!("# ======== {}\n{}", file.name, comment(&file.purpose));
            println!("{}", file.text);
        }),
    }
    Ok(ExitCode::SUCCESS)
}

fn write(folder: &Path, file: &File) -> Result<(), Failure> {
    let path = folder.join(file.name);
    let text = format!("{}\n{}", comment(&file.purpose), file.text);
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(&path, text))
        .map_err(|error| Failure::unreachable(format_args!("--output-dir: {}: {error}", path.display())))?;
    println!("{}: {}", path.display(), file.purpose.replace('\n', " "));
    Ok(())
}

fn comment(text: &str) -> String {
    text.lines().map(|line| format!("# {line}")).collect::<Vec<_>>().join("\n")
}

/// A string of YAML, in quotes where needed.
fn string(text: &str) -> String {
    yaml::block(&Value::String(text.to_owned())).trim().to_owned()
}

/// A string of CEL.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// BC-11, BC-12
fn authorization(args: &ConfigureArgs, account: Account<'_>, kubeconfig: &str) -> String {
    let Account { namespace, name } = account;
    let own = literal(&format!("system:serviceaccount:{namespace}:{name}"));
    let components = format!(
        "!(request.user in ['system:apiserver', 'system:kube-controller-manager', 'system:kube-scheduler', {own}])"
    );
    let is_resource = "has(request.resourceAttributes)";
    let in_own_namespace =
        format!("!({is_resource} && request.resourceAttributes.namespace == {})", literal(namespace));
    let leases = format!(
        "!({is_resource} && request.resourceAttributes.group == 'coordination.k8s.io' && \
         request.resourceAttributes.resource == 'leases')"
    );
    let endpoints = format!(
        "!({is_resource} && request.resourceAttributes.resource in ['endpoints', 'endpointslices', 'services'])"
    );
    let denies = args.rbac.denies();
    let on_failure = match denies {
        true => {
            "    # If the webhook does not answer, it has no opinion: the deny rules are not in force then. With Deny nobody but\n    \
             # system:masters and those below could do anything, which may be what starts the webhook."
        }
        false => {
            "    # If the webhook does not answer, it has no opinion. A request that nobody allows is then answered 500 instead of\n    \
             # 403. Deny would answer 500 to everything that is asked here."
        }
    };
    let webhook = format!(
        "- type: Webhook
  name: portcullis
  webhook:
    connectionInfo:
      type: KubeConfigFile
      kubeConfigFile: {kubeconfig}
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    # A node that would be refused waits at the webhook for at most 500 ms. The rest is for the network.
    timeout: 3s
{on_failure}
    failurePolicy: NoOpinion
    # A right may outlive its objects by so long.
    authorizedTTL: {authorized}
    # A node may be refused for so long what it has got meanwhile.
    unauthorizedTTL: {unauthorized}
    # The webhook is asked only if all of these are true.
    matchConditions:
    # Not by the control plane, and not by the webhook itself, which could wait for its own answer.
    - expression: {components}
    # Not about its own namespace: its pods must be able to start.
    - expression: {own_namespace}
    # Not about what keeps nodes and controllers alive.
    - expression: {leases}
    # Not about what leads to services, the webhook's own among them.
    - expression: {endpoints}
",
        kubeconfig = string(kubeconfig),
        authorized = seconds(args.authorized_ttl),
        unauthorized = seconds(args.unauthorized_ttl),
        components = string(&components),
        own_namespace = string(&in_own_namespace),
        leases = string(&leases),
        endpoints = string(&endpoints),
    );
    let (why, authorizers) = match denies {
        true => (
            "The webhook first: its mode Deny must refuse before another mode allows. What it has no opinion on, these decide.",
            [&*webhook, OWN_MODES],
        ),
        false => (
            "Kubernetes' own modes first: what they allow is not asked, so the cluster can start without the webhook.",
            [OWN_MODES, &*webhook],
        ),
    };
    format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n# {why}\n{}",
        authorizers.concat()
    )
}

/// The modes of Kubernetes itself, as authorizers.
const OWN_MODES: &str = "- type: Node\n  name: node\n- type: RBAC\n  name: rbac\n";

/// A duration as Kubernetes writes it.
fn seconds(duration: Duration) -> String {
    format!("{}ms", duration.as_millis())
}

fn address(args: &ConfigureArgs, account: Account<'_>) -> String {
    let of_service = || format!("{}.{}.svc:{PORT}", account.name, account.namespace);
    args.server.clone().unwrap_or_else(of_service)
}

fn kubeconfig(args: &ConfigureArgs, account: Account<'_>) -> String {
    let shown = |path: &Path| string(&path.display().to_string());
    let authority = args.host_folder.join("ca.crt");
    format!(
        "apiVersion: v1
kind: Config
clusters:
- name: portcullis
  cluster:
    # The hosts of API servers usually cannot resolve the name of a Service. Then put its cluster IP here, which the serving
    # certificate must have, or name another address with --server.
    server: {server}
    # The authority of the webhook's serving certificate.
    certificate-authority: {authority}
users:
- name: apiserver
  user:
    # By this the webhook knows the API server: see its --client-ca-file and --allowed-names.
    client-certificate: {certificate}
    client-key: {key}
contexts:
- name: webhook
  context:
    cluster: portcullis
    user: apiserver
current-context: webhook
",
        server = string(&format!("https://{}/authorize", address(args, account))),
        authority = shown(&authority),
        certificate = shown(&args.client_certificate),
        key = shown(&args.client_key),
    )
}

/// How API servers find the credentials for admission webhooks. These are no part of the objects that name the webhooks.
fn admission_control(kubeconfig: &str) -> String {
    let kubeconfig = string(kubeconfig);
    let plugin = |name: &str| {
        format!(
            "- name: {name}
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: WebhookAdmissionConfiguration
    kubeConfigFile: {kubeconfig}
"
        )
    };
    format!(
        "apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
# A mutating and a validating webhook lead to the same server.
{}{}",
        plugin("MutatingAdmissionWebhook"),
        plugin("ValidatingAdmissionWebhook")
    )
}

/// The credentials for the admission webhooks: API servers choose the user by the host of the webhook.
fn admission_kubeconfig(args: &ConfigureArgs, account: Account<'_>) -> String {
    let shown = |path: &Path| string(&path.display().to_string());
    let host = match &args.server {
        Some(server) => server.strip_suffix(&format!(":{PORT}")).unwrap_or(server).to_owned(),
        None => format!("{}.{}.svc", account.name, account.namespace),
    };
    format!(
        "apiVersion: v1
kind: Config
users:
# The host of the webhook, as admission.yaml has it, with its port if that is not {PORT}.
- name: {host}
  user:
    # By this the webhook knows the API server: see its --client-ca-file and --allowed-names.
    client-certificate: {certificate}
    client-key: {key}
",
        host = string(&host),
        certificate = shown(&args.client_certificate),
        key = shown(&args.client_key),
    )
}

/// BC-13 to BC-15
fn admission(args: &ConfigureArgs, account: Account<'_>, authority: &[u8]) -> String {
    let Account { namespace, name } = account;
    let bundle = STANDARD.encode(authority);
    let client = match &args.server {
        Some(server) => {
            format!("    url: {}\n    caBundle: {bundle}\n", string(&format!("https://{server}/admit")))
        }
        None => format!(
            "    service:\n      name: {}\n      namespace: {}\n      path: /admit\n      port: {PORT}\n    caBundle: {bundle}\n",
            string(name),
            string(namespace)
        ),
    };
    // A field that is not set cannot be compared: it would be an error, and failurePolicy Fail would refuse the write.
    let own_namespace =
        string(&format!("!has(request.namespace) || request.namespace != {}", literal(namespace)));
    let nodes = string("has(request.userInfo.groups) && 'system:nodes' in request.userInfo.groups");
    let mut rules = String::new();
    for (group, resources) in RESTRICTED {
        let resources: Vec<String> = resources.iter().map(|resource| string(resource)).collect();
        let _ = write!(
            rules,
            "  - apiGroups: [{group:?}]\n    apiVersions: [\"*\"]\n    operations: [\"CREATE\", \"UPDATE\", \"DELETE\"]\n    \
             resources: [{}]\n    scope: \"*\"\n",
            resources.join(", ")
        );
    }
    let webhook = |kind: &str, why: &str, more: &str| {
        format!(
            "# {why}
apiVersion: admissionregistration.k8s.io/v1
kind: {kind}
metadata:
  name: {name}
webhooks:
- name: node-restriction.portcullis.dev
  admissionReviewVersions: [v1]
  sideEffects: None
  timeoutSeconds: 3
  # Without an answer a node may not write. Nobody else is asked for (matchConditions), so the control plane and people can
  # repair a cluster whose webhook is down.
  failurePolicy: Fail
  matchPolicy: Equivalent
{more}  clientConfig:
{client}  matchConditions:
  - name: nodes-only
    expression: {nodes}
  # The webhook's own pods must be able to start.
  - name: not-the-namespace-of-the-webhook
    expression: {own_namespace}
  rules:
{rules}"
        )
    };
    let mut validating = webhook(
        "ValidatingWebhookConfiguration",
        "Asked last, with what would be stored: after the API server and other webhooks have changed it.",
        "",
    );
    if args.rbac.checks_escalation() {
        validating.push_str(&of_roles(&client));
    }
    [
        webhook(
            "MutatingWebhookConfiguration",
            "Asked first, with what the node has sent. It never changes an object.",
            "  reinvocationPolicy: Never\n",
        ),
        validating,
    ]
    .join("---\n")
}

/// The webhook for writes of roles and bindings (BC-31).
fn of_roles(client: &str) -> String {
    let others = string("!(has(request.userInfo.groups) && 'system:masters' in request.userInfo.groups)");
    format!(
        "- name: deny-escalation.portcullis.dev
  admissionReviewVersions: [v1]
  sideEffects: None
  timeoutSeconds: 3
  # Without an answer nobody but group system:masters writes roles and bindings: that group can repair a cluster whose webhook is
  # down, and the API server writes its default policy as a member of it.
  failurePolicy: Fail
  matchPolicy: Equivalent
  clientConfig:
{client}  matchConditions:
  - name: not-the-masters
    expression: {others}
  rules:
  - apiGroups: [\"rbac.authorization.k8s.io\"]
    apiVersions: [\"*\"]
    operations: [\"CREATE\", \"UPDATE\"]
    resources: [clusterrolebindings, clusterroles, rolebindings, roles]
    scope: \"*\"
"
    )
}
