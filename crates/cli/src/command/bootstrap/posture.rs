//! The posture check: whether a cluster confines its nodes, as seen by the answers of its API server (NB-6, NB-7).
//!
//! It changes nothing: it reads, reviews permissions of nodes (SubjectAccessReview), and writes with `dryRun=All` as a
//! node. What the caller may not ask is reported as unknown.
//!
//! The Node authorizer lets a node update the status of every pod, and NodeRestriction refuses those of other nodes, so
//! that refusal is checked by a dry run and not by a review.

use std::collections::BTreeMap;

use http::Method;
use portcullis_client::{CallError, Connection, Resource};
use serde::Serialize;
use serde_json::{Value, json};

use super::cluster::text;
use crate::failure::Failure;

/// The name of a node, a user and objects that no cluster has.
const NOBODY: &str = "portcullis-posture-check";
const REVIEWS: Resource = Resource::new("authorization.k8s.io", "v1", "subjectaccessreviews");
/// The maximum number of pods that are read.
const PODS: usize = 500;
/// The annotation of mirror pods, which give a node no permission (NA-57).
const MIRROR: &str = "kubernetes.io/config.mirror";
const AUTHENTICATED: &str = "system:authenticated";

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Outcome {
    Pass,
    Fail,
    /// The caller lacks permissions, or the server gave no usable answer.
    Unknown,
}

/// A check with its result.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Posture {
    /// What the cluster must have.
    check: &'static str,
    pub(super) result: Outcome,
    /// What was found.
    detail: String,
}

impl std::fmt::Display for Posture {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let result = match self.result {
            Outcome::Pass => "pass",
            Outcome::Fail => "FAIL",
            Outcome::Unknown => "unknown",
        };
        // Servers must not write control characters to a terminal.
        let detail: String = self.detail.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        write!(f, "{}: {result}: {detail}", self.check)
    }
}

/// What a check has seen so far.
#[derive(Default)]
struct Notes {
    right: usize,
    wrong: Vec<String>,
    unknown: Vec<String>,
    skipped: Vec<String>,
}

impl Notes {
    fn unknown(&mut self, what: &str, why: impl std::fmt::Display) {
        self.unknown.push(format!("{what}: {why}"));
    }

    fn skip(&mut self, what: &str) {
        self.skipped.push(what.to_owned());
    }

    /// A single wrong answer fails the check; otherwise a missing one makes it unknown.
    fn done(self, check: &'static str) -> Posture {
        let (result, detail) = if !self.wrong.is_empty() {
            (Outcome::Fail, self.wrong.join("; "))
        } else if !self.unknown.is_empty() {
            (Outcome::Unknown, self.unknown.join("; "))
        } else {
            let skipped = match self.skipped.is_empty() {
                true => String::new(),
                false => format!("; not checked: {}", self.skipped.join(", ")),
            };
            (Outcome::Pass, format!("{} answers as expected{skipped}", self.right))
        };
        Posture { check, result, detail }
    }
}

/// A node with objects that its pods use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Sample {
    node: String,
    namespace: String,
    pod: String,
    secret: Option<(String, String)>,
    config_map: Option<(String, String)>,
    claim: Option<(String, String)>,
    /// A pod of another node: namespace and name.
    foreign: Option<(String, String)>,
}

impl Sample {
    fn score(&self) -> usize {
        [&self.secret, &self.config_map, &self.claim].into_iter().flatten().count()
    }
}

/// Runs all checks. `node` is the node whose pods are examined; none for the one whose pods use most kinds of objects.
///
/// # Errors
/// The API server cannot be reached.
pub(super) async fn check(connection: &Connection, node: Option<&str>) -> Result<Vec<Posture>, Failure> {
    let mut checks = vec![rbac(connection).await?];
    let (sample, unread) = match sample(connection, node).await {
        Ok(sample) => (sample, None),
        Err(error) => (None, Some(answered(error)?)),
    };
    checks.push(node_authorizer(connection, sample.as_ref(), unread.as_deref()).await?);
    checks.push(node_restriction(connection, sample.as_ref(), unread.as_deref()).await?);
    checks.extend(oauth_scopes(connection).await?);
    Ok(checks)
}

/// RBAC denies a user whom nobody has granted anything, and names itself where a default binding allows.
async fn rbac(connection: &Connection) -> Result<Posture, Failure> {
    let mut notes = Notes::default();
    let user = (NOBODY, &[AUTHENTICATED][..]);
    expect(connection, &mut notes, user, false, &["get", "", "secrets", "", "kube-system", NOBODY]).await?;
    let review = ["create", "authorization.k8s.io", "selfsubjectaccessreviews", "", "", ""];
    let what = "that a default ClusterRoleBinding allows";
    match allowed(connection, user, &review).await {
        Ok((true, reason)) if reason.starts_with("RBAC:") => notes.right += 1,
        Ok((true, _)) => notes.unknown(what, "the answer does not say which authorizer allowed it"),
        Ok((false, _)) => {
            notes.unknown(what, "it is denied, so the default bindings or RBAC itself are missing")
        }
        Err(error) => notes.unknown(what, answered(error)?),
    }
    Ok(notes.done("RBAC"))
}

/// The Node authorizer allows what the pods of the node need, and nothing else (NB-7).
async fn node_authorizer(
    connection: &Connection,
    sample: Option<&Sample>,
    unread: Option<&str>,
) -> Result<Posture, Failure> {
    let mut notes = Notes::default();
    let name = sample.map_or(NOBODY, |sample| &sample.node);
    let (user, groups) = (format!("system:node:{name}"), ["system:nodes", AUTHENTICATED]);
    let user = (user.as_str(), &groups[..]);
    let namespace = sample.map_or("default", |sample| &sample.namespace);
    for (is_allowed, attributes) in [
        (true, ["create", "", "nodes", "", "", ""]),
        (false, ["get", "", "secrets", "", namespace, NOBODY]),
        (false, ["get", "", "configmaps", "", namespace, NOBODY]),
        (false, ["get", "", "persistentvolumes", "", "", NOBODY]),
        (false, ["list", "", "secrets", "", "", ""]),
        (false, ["create", "apps", "deployments", "", namespace, ""]),
    ] {
        expect(connection, &mut notes, user, is_allowed, &attributes).await?;
    }
    let Some(sample) = sample else {
        match unread {
            Some(why) => notes.unknown("objects of the pods of a node", why),
            None => notes.skip("objects of the pods of a node, as there are no pods on nodes"),
        }
        return Ok(notes.done("Node authorizer"));
    };
    let status = ["update", "", "pods", "status", namespace, &sample.pod];
    expect(connection, &mut notes, user, true, &status).await?;
    for (plural, found) in [("secrets", &sample.secret), ("configmaps", &sample.config_map)] {
        match found {
            Some((namespace, name)) => {
                expect(connection, &mut notes, user, true, &["get", "", plural, "", namespace, name]).await?;
            }
            None => notes.skip(plural),
        }
    }
    let Some((namespace, claim)) = &sample.claim else {
        notes.skip("persistentvolumes");
        return Ok(notes.done("Node authorizer"));
    };
    let claims = Resource::new("", "v1", "persistentvolumeclaims").within(namespace);
    match connection.get::<Value>(&claims, claim).await {
        Err(error) => notes.unknown("the volume of a claim", answered(error)?),
        Ok(found) => match text(&found, &["spec", "volumeName"]) {
            "" => notes.skip("persistentvolumes"),
            volume => {
                let attributes = ["get", "", "persistentvolumes", "", "", volume];
                expect(connection, &mut notes, user, true, &attributes).await?;
            }
        },
    }
    Ok(notes.done("Node authorizer"))
}

/// NodeRestriction refuses writes of a node that its authorizer allows. Each refusal counts only if a write that differs
/// in nothing else is accepted.
async fn node_restriction(
    connection: &Connection,
    sample: Option<&Sample>,
    unread: Option<&str>,
) -> Result<Posture, Failure> {
    let mut notes = Notes::default();
    let node = |labels: Value| json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NOBODY, "labels": labels}});
    let nodes = "/api/v1/nodes?dryRun=All".to_owned();
    let label = format!("node-restriction.kubernetes.io/{NOBODY}");
    let good = Write { method: Method::POST, path: nodes.clone(), body: node(json!({})) };
    let bad = Write { method: Method::POST, path: nodes, body: node(json!({label: "x"})) };
    let what = "a node that sets a label with the prefix node-restriction.kubernetes.io";
    refuses(connection, &mut notes, NOBODY, what, &good, &bad).await?;
    let what = "a node that updates the status of a pod of another node";
    match sample.map(|sample| (sample, &sample.foreign)) {
        Some((sample, Some((namespace, name)))) => {
            let patch = |namespace: &str, name: &str| Write {
                method: Method::PATCH,
                path: format!(
                    "{}/status?dryRun=All",
                    Resource::new("", "v1", "pods").within(namespace).object(name)
                ),
                body: json!({"status": {"message": NOBODY}}),
            };
            let (good, bad) = (patch(&sample.namespace, &sample.pod), patch(namespace, name));
            refuses(connection, &mut notes, &sample.node, what, &good, &bad).await?;
        }
        _ => match unread {
            Some(why) => notes.unknown(what, why),
            None => notes.skip(what),
        },
    }
    Ok(notes.done("NodeRestriction"))
}

/// The authorizer of OAuth scopes of OpenShift, which no request without a user's token can show.
async fn oauth_scopes(connection: &Connection) -> Result<Option<Posture>, Failure> {
    match connection.call::<Value>(Method::GET, "/apis/oauth.openshift.io", None).await {
        Ok(_) => {
            let mut notes = Notes::default();
            notes.unknown("OpenShift", "only a request with a scoped token of a user would show it");
            Ok(Some(notes.done("OAuth scope authorizer")))
        }
        Err(error) => answered(error).map(|_| None),
    }
}

/// A write as a node, which is a dry run.
struct Write {
    method: Method,
    path: String,
    body: Value,
}

impl Write {
    /// Returns whether it is accepted; false if it is forbidden.
    async fn is_accepted(&self, connection: &Connection, node: &str) -> Result<bool, CallError> {
        let media_type = match self.method {
            Method::PATCH => "application/merge-patch+json",
            _ => "application/json",
        };
        let (user, groups) = (format!("system:node:{node}"), ["system:nodes", AUTHENTICATED]);
        let body = Some((media_type, self.body.to_string().into_bytes()));
        let answer: Result<Value, _> =
            connection.call_as(&user, &groups, self.method.clone(), &self.path, body).await;
        match answer {
            Ok(_) => Ok(true),
            Err(error) if error.code() == Some(403) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Notes whether the second write is refused although the first is accepted.
async fn refuses(
    connection: &Connection,
    notes: &mut Notes,
    node: &str,
    what: &str,
    good: &Write,
    bad: &Write,
) -> Result<(), Failure> {
    match good.is_accepted(connection, node).await {
        Ok(true) => {}
        Ok(false) => {
            let why = "a dry run as a node is forbidden: impersonation of nodes, or the Node authorizer, is missing";
            notes.unknown(what, why);
            return Ok(());
        }
        Err(error) => {
            notes.unknown(what, answered(error)?);
            return Ok(());
        }
    }
    match bad.is_accepted(connection, node).await {
        Ok(false) => notes.right += 1,
        Ok(true) => notes.wrong.push(format!("{what} is not refused")),
        Err(error) => notes.unknown(what, answered(error)?),
    }
    Ok(())
}

/// Reviews a user and notes whether the answer is the expected one. See [`allowed`] for the attributes.
async fn expect(
    connection: &Connection,
    notes: &mut Notes,
    user: (&str, &[&str]),
    is_expected: bool,
    attributes: &[&str; 6],
) -> Result<(), Failure> {
    let [verb, _, resource, subresource, namespace, name] = attributes;
    let words = [*verb, *resource, *subresource, *namespace, *name];
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    let what = format!("{} of {}", words.join(" "), user.0);
    match allowed(connection, user, attributes).await {
        Ok((is_allowed, _)) if is_allowed == is_expected => notes.right += 1,
        Ok((true, _)) => notes.wrong.push(format!("{what} is allowed")),
        Ok((false, _)) => notes.wrong.push(format!("{what} is denied")),
        Err(error) => notes.unknown(&what, answered(error)?),
    }
    Ok(())
}

/// Reviews verb, group, resource, subresource, namespace and name. Returns whether they are allowed, and the reason.
async fn allowed(
    connection: &Connection,
    (user, groups): (&str, &[&str]),
    [verb, group, resource, subresource, namespace, name]: &[&str; 6],
) -> Result<(bool, String), CallError> {
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {
        "user": user, "groups": groups, "resourceAttributes": {"verb": verb, "group": group,
            "version": "v1", "resource": resource, "subresource": subresource, "namespace": namespace, "name": name}}});
    let answer: Value = connection.create(&REVIEWS, &review).await?;
    let is_allowed = answer.pointer("/status/allowed") == Some(&Value::Bool(true));
    let error = text(&answer, &["status", "evaluationError"]);
    if !is_allowed && !error.is_empty() {
        let why = format!("the review failed: {error}");
        return Err(CallError::Answer { path: REVIEWS.path(), why });
    }
    Ok((is_allowed, text(&answer, &["status", "reason"]).to_owned()))
}

/// Converts a refusal or an unusable answer to its description.
///
/// # Errors
/// The server cannot be reached.
fn answered(error: CallError) -> Result<String, Failure> {
    match error {
        CallError::Unreachable { .. } => Err(Failure::unreachable(error)),
        error => Ok(error.to_string()),
    }
}

/// Reads pods and chooses a node; none if no pod is on a node.
async fn sample(connection: &Connection, node: Option<&str>) -> Result<Option<Sample>, CallError> {
    let path = format!("{}?limit={PODS}", Resource::new("", "v1", "pods").path());
    let page: Value = connection.call(Method::GET, &path, None).await?;
    let Some(wanted) = node else { return Ok(choose(&items(&page), None)) };
    let mut pods = items(&page);
    // The first page may have no pod of this node.
    let own: Value =
        connection.call(Method::GET, &format!("{path}&fieldSelector=spec.nodeName%3D{wanted}"), None).await?;
    pods.extend(items(&own));
    Ok(choose(&pods, Some(wanted)))
}

fn items(list: &Value) -> Vec<Value> {
    list.get("items").and_then(Value::as_array).cloned().unwrap_or_default()
}

/// Chooses the node whose pods use most kinds of objects, or the wanted one.
fn choose(pods: &[Value], wanted: Option<&str>) -> Option<Sample> {
    let mut samples: BTreeMap<&str, Sample> = BTreeMap::new();
    for pod in pods {
        let node = text(pod, &["spec", "nodeName"]);
        if node.is_empty() || !text(pod, &["metadata", "annotations", MIRROR]).is_empty() {
            continue;
        }
        let (namespace, name) = (text(pod, &["metadata", "namespace"]), text(pod, &["metadata", "name"]));
        let sample = samples.entry(node).or_insert_with(|| Sample {
            node: node.to_owned(),
            namespace: namespace.to_owned(),
            pod: name.to_owned(),
            ..Sample::default()
        });
        for volume in pod.pointer("/spec/volumes").and_then(Value::as_array).into_iter().flatten() {
            mounts(sample, namespace, volume);
        }
    }
    let best = samples.values().filter(|sample| wanted.is_none_or(|wanted| sample.node == wanted));
    let mut best = best.max_by_key(|sample| sample.score())?.clone();
    let foreign = samples.values().find(|sample| sample.node != best.node);
    best.foreign = foreign.map(|sample| (sample.namespace.clone(), sample.pod.clone()));
    Some(best)
}

/// Adds the objects of a volume to a sample.
fn mounts(sample: &mut Sample, namespace: &str, volume: &Value) {
    let named = |found: &str| (!found.is_empty()).then(|| (namespace.to_owned(), found.to_owned()));
    let sources = volume.pointer("/projected/sources").and_then(Value::as_array).into_iter().flatten();
    for source in sources {
        sample.secret = sample.secret.take().or_else(|| named(text(source, &["secret", "name"])));
        sample.config_map = sample.config_map.take().or_else(|| named(text(source, &["configMap", "name"])));
    }
    let claim = text(volume, &["persistentVolumeClaim", "claimName"]);
    sample.secret = sample.secret.take().or_else(|| named(text(volume, &["secret", "secretName"])));
    sample.config_map = sample.config_map.take().or_else(|| named(text(volume, &["configMap", "name"])));
    sample.claim = sample.claim.take().or_else(|| named(claim));
}
