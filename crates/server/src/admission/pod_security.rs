//! PodSecurity: refuses pods that violate the Pod Security Standard which the labels of their namespace enforce, and
//! warns of violations and notes them in the audit log where the labels ask for that. Mirror pods are treated like all
//! others (MP-24). The configuration of the plugin has the defaults for namespaces without labels, and the exemptions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kinds::Map;
use kinds::pod_security::{
    Level, Pod, Policy, Standard, Violation, is_about_pods, is_significant, template, violations,
};
use kinds::resources::core::namespaces::NAMESPACES;
use kinds::resources::pods::PODS;
use portcullis_apimachinery::quote::quoted;
use portcullis_store::{Entry, List, Store as _};
use tokio::task::spawn_blocking;

use super::configuration::PodSecurity;
use super::plugin::{Plugin, ValidationContext};
use super::pod_security_metrics::Mode;
use crate::http::status::Status;
use crate::registry::admission::{AdmissionAttributes, Operation};
use crate::registry::{meta, storage};

/// The most pods of a namespace that are checked when its labels change, and the time for that.
const MAX_PODS: usize = 3000;
const TIME_LIMIT: Duration = Duration::from_secs(1);

const ENFORCED: &str = "pod-security.kubernetes.io/enforce-policy";
const AUDITED: &str = "pod-security.kubernetes.io/audit-violations";
const EXEMPT: &str = "pod-security.kubernetes.io/exempt";
const ERROR: &str = "pod-security.kubernetes.io/error";

/// See the module.
pub(super) static PLUGIN: Plugin = Plugin {
    name: "PodSecurity",
    handles,
    validate: |attributes, context| Box::pin(validate(attributes, context)),
    ..Plugin::NONE
};

/// Of the subresources of pods, those that change containers.
fn handles(attributes: &AdmissionAttributes<'_>) -> bool {
    let resource = attributes.resource;
    matches!(attributes.operation, Operation::Create | Operation::Update)
        && match attributes.subresource {
            "" => resource.is_namespace || is_about_pods(resource),
            "ephemeralcontainers" | "resize" => *resource == PODS,
            _ => false,
        }
}

async fn validate(
    attributes: &AdmissionAttributes<'_>,
    context: &ValidationContext<'_>,
) -> Result<(), Status> {
    let Some(object) = attributes.object.as_deref() else { return Ok(()) };
    let (configuration, metrics, remarks) =
        (context.pod_security, context.pod_security_metrics, context.remarks);
    if attributes.resource.is_namespace {
        return validate_namespace(attributes, object, context).await;
    }
    if configuration.exempts_namespace(attributes.namespace) {
        return exempt("namespace", attributes, context);
    }
    if configuration.exempts_user(&attributes.user.name) {
        return exempt("user", attributes, context);
    }
    // NamespaceLifecycle refuses what is in no namespace, unless it is switched off. Then nothing is known to be allowed.
    let namespace = attributes.stored(&NAMESPACES, "", attributes.namespace).await;
    let missing = || Status::no_object("", "namespaces", attributes.namespace);
    let namespace = namespace.and_then(|found| found.ok_or_else(missing)).inspect_err(|_| {
        metrics.failed(true, attributes);
    })?;
    let (policy, errors) = Policy::of(&namespace, &configuration.defaults);
    let is_pod = *attributes.resource == PODS;
    let is_free = if is_pod { policy.allows_everything() } else { policy.says_nothing() };
    if errors.is_empty() && is_free {
        if is_pod {
            metrics.evaluated(policy.enforce, Mode::Enforce, true, attributes);
        }
        return Ok(());
    }
    let pod = match is_pod {
        true if attributes.old.is_some_and(|old| !is_significant(object, old)) => return Ok(()),
        true => Pod::of(object),
        false => match template(attributes.resource, object) {
            Some(pod) => pod,
            None => return Ok(()),
        },
    };
    if configuration.runtime_classes.contains(pod.runtime_class()) {
        return exempt("runtimeClass", attributes, context);
    }
    if let Some(error) = errors.told().0.first() {
        remarks.annotate(ERROR, format!("Failed to parse policy: {}", error.message()));
        metrics.failed(false, attributes);
    }
    if is_pod {
        remarks.annotate(ENFORCED, policy.enforce.to_string());
        let found = violations(policy.enforce, pod);
        metrics.evaluated(policy.enforce, Mode::Enforce, found.is_empty(), attributes);
        if !found.is_empty() {
            audit(policy, pod, attributes, context);
            let why =
                format!("violates PodSecurity {}: {}", quoted(&policy.enforce.to_string()), told(&found));
            return Err(attributes.forbidden(&why, Vec::new()));
        }
    }
    remark(policy, pod, attributes, context);
    Ok(())
}

/// Allows an exempt write, and notes the reason for the audit log.
fn exempt(
    why: &str,
    attributes: &AdmissionAttributes<'_>,
    context: &ValidationContext<'_>,
) -> Result<(), Status> {
    context.pod_security_metrics.exempted(attributes);
    context.remarks.annotate(EXEMPT, why.to_owned());
    Ok(())
}

/// Warns of what a pod violates, and notes it for the audit log.
fn remark(
    policy: Policy,
    pod: Pod<'_>,
    attributes: &AdmissionAttributes<'_>,
    context: &ValidationContext<'_>,
) {
    audit(policy, pod, attributes, context);
    let warned = violations(policy.warn, pod);
    if !warned.is_empty() {
        context.remarks.warn([would_violate(policy.warn, &warned)]);
        context.pod_security_metrics.evaluated(policy.warn, Mode::Warn, false, attributes);
    }
}

fn audit(
    policy: Policy,
    pod: Pod<'_>,
    attributes: &AdmissionAttributes<'_>,
    context: &ValidationContext<'_>,
) {
    let audited = violations(policy.audit, pod);
    if !audited.is_empty() {
        context.remarks.annotate(AUDITED, would_violate(policy.audit, &audited));
        context.pod_security_metrics.evaluated(policy.audit, Mode::Audit, false, attributes);
    }
}

fn would_violate(standard: Standard, found: &[Violation]) -> String {
    format!("would violate PodSecurity {}: {}", quoted(&standard.to_string()), told(found))
}

fn told(found: &[Violation]) -> String {
    found.iter().map(Violation::to_string).collect::<Vec<_>>().join(", ")
}

/// The labels must be readable, unless they were wrong before. The client is warned of pods that are there already and
/// violate a stricter standard; they stay. If the namespace is exempt, it is warned that labels do nothing.
async fn validate_namespace(
    attributes: &AdmissionAttributes<'_>,
    namespace: &Map,
    context: &ValidationContext<'_>,
) -> Result<(), Status> {
    let (configuration, remarks) = (context.pod_security, context.remarks);
    let defaults = &configuration.defaults;
    let (policy, errors) = Policy::of(namespace, defaults);
    let (old_policy, old_errors) = attributes.old.map(|old| Policy::of(old, defaults)).unwrap_or_default();
    if !errors.told().0.is_empty() && errors.told().0 != old_errors.told().0 {
        let resource = attributes.resource;
        return Err(Status::invalid_object(resource.group, resource.kind, attributes.name, errors));
    }
    let (new, old) = (policy.enforce, old_policy.enforce);
    let is_relaxed = new.version == old.version && new.level <= old.level;
    let is_new = attributes.operation == Operation::Create;
    if !is_new && (new.level == Level::Privileged || is_relaxed) {
        return Ok(());
    }
    let name = meta::text(namespace, "name");
    if configuration.exempts_namespace(name) {
        if !policy.allows_everything() && !policy.is_equivalent(defaults) {
            let (name, ignored) = (quoted(name), policy.asked_for(namespace));
            remarks.warn([format!(
                "namespace {name} is exempt from Pod Security, and the policy ({ignored}) will be ignored"
            )]);
        }
    } else if !is_new {
        remarks.warn(warnings_about_pods(attributes, name, new, configuration).await?);
    }
    Ok(())
}

/// The result of checking the pods of a namespace.
struct Checked {
    /// The reasons of pods that violate the standard, with the first of these pods and their number.
    found: BTreeMap<String, (String, usize)>,
    /// The number of pods that were checked.
    count: usize,
}

/// Checks pods until the time is over.
fn check(
    pods: &[Arc<Entry>],
    standard: Standard,
    is_exempt: impl Fn(Pod<'_>) -> bool,
) -> Result<Checked, Status> {
    let started = Instant::now();
    let mut checked = Checked { found: BTreeMap::new(), count: 0 };
    for entry in pods {
        if started.elapsed() > TIME_LIMIT {
            break;
        }
        let pod = storage::decode(&entry.value)?;
        let found = match Pod::of(&pod) {
            exempt if is_exempt(exempt) => Vec::new(),
            pod => violations(standard, pod),
        };
        let reasons: Vec<&str> = found.iter().map(|violation| violation.reason).collect();
        if !reasons.is_empty() {
            let first = || (meta::text(&pod, "name").to_owned(), 0);
            let (_, count) = checked.found.entry(reasons.join(", ")).or_insert_with(first);
            *count = count.saturating_add(1);
        }
        checked.count = checked.count.saturating_add(1);
    }
    Ok(checked)
}

/// The warnings about the pods of a namespace that violate a standard.
async fn warnings_about_pods(
    attributes: &AdmissionAttributes<'_>,
    namespace: &str,
    standard: Standard,
    configuration: &PodSecurity,
) -> Result<Vec<String>, Status> {
    let list = List { prefix: storage::prefix(&PODS, namespace).into(), limit: MAX_PODS, ..List::default() };
    let listing = attributes.backend.list(&list).await.map_err(|error| storage::failed(&error))?;
    let all = listing.entries.len().saturating_add(listing.remaining);
    let exempt = Arc::clone(&configuration.runtime_classes);
    let is_exempt = move |pod: Pod<'_>| exempt.contains(pod.runtime_class());
    let checking = spawn_blocking(move || check(&listing.entries, standard, is_exempt));
    let Checked { found, count } = checking.await.map_err(Status::internal)??;
    let mut warnings = Vec::new();
    if count < all {
        warnings.push(format!(
            "new PodSecurity enforce level only checked against the first {count} of {all} existing pods"
        ));
    }
    if !found.is_empty() {
        let (namespace, standard) = (quoted(namespace), quoted(&standard.to_string()));
        warnings.push(format!(
            "existing pods in namespace {namespace} violate the new PodSecurity enforce level {standard}"
        ));
    }
    let mut of_pods: Vec<String> = found
        .into_iter()
        .map(|(reasons, (first, count))| match count {
            1 => format!("{first}: {reasons}"),
            2 => format!("{first} (and 1 other pod): {reasons}"),
            count => format!("{first} (and {} other pods): {reasons}", count.saturating_sub(1)),
        })
        .collect();
    of_pods.sort_unstable();
    warnings.extend(of_pods);
    Ok(warnings)
}
