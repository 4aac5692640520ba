//! `portcullis bootstrap check`: finds permissions of bootstrap credentials beyond requesting certificates (NB-36), and
//! checks that nodes are confined ([`super::posture`]).

use std::io::Write as _;
use std::process::ExitCode;

use clap::Args;
use portcullis_client::{Connection, Resource};
use portcullis_policy::objects::rbac::{Binding, OwnedMetadata, RoleRef, Subject};
use serde::{Deserialize, Serialize};

use super::common::{ListArgs, PlaceFlags, refused};
use super::inventory::print_json;
use super::posture::{self, Outcome};
use crate::failure::Failure;

const GROUP: &str = "rbac.authorization.k8s.io";
const ROLES: [Resource; 4] = [
    Resource::new(GROUP, "v1", "clusterroles"),
    Resource::new(GROUP, "v1", "roles"),
    Resource::new(GROUP, "v1", "clusterrolebindings"),
    Resource::new(GROUP, "v1", "rolebindings"),
];
/// The group of bootstrap tokens, which is also the prefix of more specific groups.
const BOOTSTRAPPERS: &str = "system:bootstrappers";

/// The paths that all authenticated users may read: discovery, health and keys.
const OPEN_PATHS: [&str; 17] = [
    "/.well-known/openid-configuration",
    "/.well-known/openid-configuration/",
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/healthz",
    "/livez",
    "/openapi",
    "/openapi/*",
    "/openid/v1/jwks",
    "/openid/v1/jwks/",
    "/readyz",
    "/version",
    "/version/",
    "/openapi/v2",
    "/openapi/v3",
];
/// The maximum of each kind of harmless rule: groups, resources, verbs.
const HARMLESS: [(&[&str], &[&str], &[&str]); 2] = [
    // NB-36
    (&["certificates.k8s.io"], &["certificatesigningrequests"], &["create", "get", "list", "watch"]),
    // Reviews of the caller itself.
    (
        &["authentication.k8s.io", "authorization.k8s.io"],
        &["selfsubjectaccessreviews", "selfsubjectreviews", "selfsubjectrulesreviews"],
        &["create"],
    ),
];

/// The flags of the check.
#[derive(Args, Debug)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    list: ListArgs,

    /// The node whose pods are examined [default: one whose pods mount secrets, config maps and claims]
    #[arg(long, value_name = "NAME", value_parser = node)]
    node: Option<String>,
}

/// Parses a node name, which becomes part of a query.
fn node(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.');
    match !text.is_empty() && text.len() <= 253 && text.chars().all(fits) {
        true => Ok(text.to_owned()),
        false => Err("a node name has lower-case letters, digits, - and .".to_owned()),
    }
}

#[derive(Clone, Debug, Deserialize)]
struct List<T> {
    items: Vec<T>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Role {
    metadata: OwnedMetadata,
    rules: Option<Vec<Rule>>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct Rule {
    #[serde(skip_serializing_if = "Option::is_none")]
    api_groups: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resources: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_names: Option<Vec<String>>,
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Option::is_none")]
    non_resource_urls: Option<Vec<String>>,
    verbs: Vec<String>,
}

/// A rule that allows too much.
#[derive(Clone, Debug, Serialize)]
struct Finding {
    /// The subject that has it.
    subject: String,
    binding: String,
    role: String,
    rule: Rule,
}

/// The RBAC objects of the cluster.
struct Policy {
    cluster_roles: Vec<Role>,
    roles: Vec<Role>,
    /// The namespace is empty for ClusterRoleBindings.
    bindings: Vec<Binding>,
}

/// Runs the command.
///
/// # Errors
/// See [`super::run`].
pub(super) async fn run(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let connection = args.list.server.connect().await?;
    let postures = posture::check(&connection, args.node.as_deref()).await?;
    if args.list.form.json {
        print_json(&postures)?;
    } else {
        let mut out = std::io::stdout().lock();
        for posture in &postures {
            writeln!(out, "{posture}")?;
        }
    }
    let found = findings(&connection, &args.list).await?;
    let has = |result| postures.iter().any(|posture| posture.result == result);
    Ok(ExitCode::from(match found || has(Outcome::Fail) {
        true => 1,
        false if has(Outcome::Unknown) => 3,
        false => 0,
    }))
}

/// Prints what bootstrap credentials may do beyond requesting certificates. Returns whether there is something.
async fn findings(connection: &Connection, args: &ListArgs) -> Result<bool, Failure> {
    let [cluster_roles, roles, cluster_bindings, bindings] = &ROLES;
    let mut all: Vec<Binding> = listed(connection, cluster_bindings).await?;
    all.extend(listed(connection, bindings).await?);
    let policy = Policy {
        cluster_roles: listed(connection, cluster_roles).await?,
        roles: listed(connection, roles).await?,
        bindings: all,
    };
    let found = policy.findings(&args.places);
    if args.form.json {
        print_json(&found)?;
        return Ok(!found.is_empty());
    }
    let mut out = std::io::stdout().lock();
    for finding in &found {
        let rule = serde_json::to_string(&finding.rule).map_err(std::io::Error::from)?;
        let Finding { subject, binding, role, .. } = finding;
        writeln!(out, "finding: {subject} by {binding} of {role}: {rule}")?;
    }
    if found.is_empty() {
        writeln!(
            out,
            "bootstrap credentials: pass: their holders may request certificates and nothing else"
        )?;
    }
    Ok(!found.is_empty())
}

async fn listed<T: for<'de> Deserialize<'de>>(
    connection: &Connection,
    resource: &Resource,
) -> Result<Vec<T>, Failure> {
    let list: Result<List<T>, _> = connection.call(http::Method::GET, &resource.path(), None).await;
    Ok(list.map_err(refused(format!("list {}", resource.plural)))?.items)
}

impl Policy {
    fn findings(&self, places: &PlaceFlags) -> Vec<Finding> {
        let mut found = Vec::new();
        for binding in &self.bindings {
            let subjects = binding.subjects.iter();
            let Some(subject) = subjects.filter_map(|subject| reached(subject, places)).next() else {
                continue;
            };
            let rules = self.role(binding).and_then(|role| role.rules.as_ref()).into_iter().flatten();
            for rule in rules.filter(|rule| goes_too_far(rule)) {
                let OwnedMetadata { name, namespace, .. } = &binding.metadata;
                found.push(Finding {
                    subject: subject.clone(),
                    binding: match namespace.as_str() {
                        "" => format!("ClusterRoleBinding {name}"),
                        namespace => format!("RoleBinding {namespace}/{name}"),
                    },
                    role: format!("{} {}", binding.role_ref.kind, binding.role_ref.name),
                    rule: rule.clone(),
                });
            }
        }
        found
    }

    /// Returns the role of a binding; none if it does not exist and so allows nothing.
    fn role(&self, binding: &Binding) -> Option<&Role> {
        let RoleRef { kind, name, .. } = &binding.role_ref;
        match kind.as_str() {
            "ClusterRole" => self.cluster_roles.iter().find(|role| role.metadata.name == *name),
            _ => self.roles.iter().find(|role| {
                role.metadata.name == *name && role.metadata.namespace == binding.metadata.namespace
            }),
        }
    }
}

/// Returns the name by which a subject of a binding includes a holder, if it does.
fn reached(subject: &Subject, places: &PlaceFlags) -> Option<String> {
    let name = subject.name.as_str();
    let is_reached = match subject.kind.as_str() {
        "User" => name == places.user() || name.starts_with("system:bootstrap:"),
        "Group" => {
            let is_token =
                name.strip_prefix(BOOTSTRAPPERS).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'));
            is_token
                || name == places.group()
                || matches!(name, "system:authenticated" | "system:serviceaccounts")
        }
        "ServiceAccount" => name == places.account.name && subject.namespace == places.account.namespace,
        _ => false,
    };
    is_reached.then(|| match subject.kind.as_str() {
        "ServiceAccount" => format!("ServiceAccount {}/{name}", subject.namespace),
        kind => format!("{kind} {name}"),
    })
}

/// Returns whether a rule allows more than [`HARMLESS`] and [`OPEN_PATHS`].
fn goes_too_far(rule: &Rule) -> bool {
    let within = |held: &Option<Vec<String>>, all: &[&str]| {
        held.iter().flatten().all(|one| all.contains(&one.as_str()))
    };
    let verbs = Some(rule.verbs.clone());
    let resources = rule.resources.as_deref().unwrap_or_default();
    let is_harmless = resources.is_empty()
        || HARMLESS.iter().any(|(groups, kinds, allowed)| {
            within(&rule.api_groups, groups) && within(&rule.resources, kinds) && within(&verbs, allowed)
        });
    let paths = rule.non_resource_urls.as_deref().unwrap_or_default();
    let is_open =
        paths.is_empty() || within(&rule.non_resource_urls, &OPEN_PATHS) && within(&verbs, &["get"]);
    !(is_harmless && is_open)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_rule_goes_too_far_with_every_word_more_nb_36() {
        let too_far = |rule| goes_too_far(&serde_json::from_value(rule).unwrap());
        let rule = |groups: &[&str], resources: &[&str], verbs: &[&str]| json!({"apiGroups": groups, "resources": resources, "verbs": verbs});
        let (group, csrs) = ("certificates.k8s.io", "certificatesigningrequests");
        assert!(!too_far(rule(&[group], &[csrs], &["create", "get", "list", "watch"])));
        assert!(!too_far(rule(&["authorization.k8s.io"], &["selfsubjectaccessreviews"], &["create"])));
        for (groups, resources, verbs) in [
            (&[group][..], &[csrs][..], &["create", "delete"][..]),
            (&[group], &[csrs], &["*"]),
            (&["*"], &[csrs], &["get"]),
            (&[group, ""], &[csrs], &["get"]),
            (&[group], &["*"], &["get"]),
            (&[group], &["certificatesigningrequests/nodeclient"], &["create"]),
            (&[group], &["certificatesigningrequests/approval"], &["create"]),
            (&["authorization.k8s.io"], &["subjectaccessreviews"], &["create"]),
            (&[""], &["secrets"], &["get"]),
        ] {
            assert!(too_far(rule(groups, resources, verbs)), "{groups:?} {resources:?} {verbs:?}");
        }
        assert!(!too_far(json!({"nonResourceURLs": ["/version", "/api/*"], "verbs": ["get"]})));
        assert!(too_far(json!({"nonResourceURLs": ["/version"], "verbs": ["get", "post"]})));
        assert!(too_far(json!({"nonResourceURLs": ["/metrics"], "verbs": ["get"]})));
        assert!(too_far(json!({"nonResourceURLs": ["*"], "verbs": ["get"]})));
    }
}
