//! Everything wrong with a definition, apart from its metadata.

use std::collections::{HashMap, HashSet};

use portcullis_apimachinery::field_error::FieldError;
use portcullis_apimachinery::names::subdomain_errors;
use portcullis_apimachinery::quote::quoted;
use serde_json::Value;

use super::{names, status, versions};
use crate::Map;
use crate::custom::RuleCompiler;
use crate::fields::{ErrorList, Errors, Members};

/// The annotation by which a group of Kubernetes is approved.
const APPROVED: &str = "api-approved.kubernetes.io";

/// As [`validate_with`], without compiling rules.
pub fn validate(definition: &Map, old: Option<&Map>) -> Errors {
    check(definition, old, None)
}

/// Everything wrong with a definition, apart from its metadata. `old` is the stored one, in an update. Takes long: not for a
/// thread that serves requests.
pub fn validate_with(definition: &Map, old: Option<&Map>, compiler: &dyn RuleCompiler) -> Errors {
    check(definition, old, Some(compiler))
}

/// Why the kind of a stored definition cannot be served, apart from its rules; none if it can. Other servers may store what is
/// refused here.
pub fn fault(definition: &Map) -> Option<FieldError> {
    let mut errors = Errors::new();
    named(definition, &mut errors);
    of_spec(definition.object("spec"), None, &mut errors);
    pruned(definition.object("spec"), &mut errors);
    errors.into_iter().next()
}

fn check(definition: &Map, old: Option<&Map>, compiler: Option<&dyn RuleCompiler>) -> Errors {
    let mut errors = Errors::new();
    let spec = definition.object("spec");
    if old.is_none() && subdomain_errors(definition.metadata().text("name")).is_empty() {
        named(definition, &mut errors);
    }
    // What is stored already stays valid.
    let is_as_before = old.is_some_and(|old| old.object("spec") == spec);
    if !is_as_before {
        of_spec(spec, compiler, &mut errors);
        if let Some(old) = old {
            immutable(definition, old, &mut errors);
        }
    }
    let of_status = definition.object("status");
    names::check(of_status.object("acceptedNames"), "status.acceptedNames", &mut errors);
    stored_versions(of_status, spec, &mut errors);
    approval(definition, old, &mut errors);
    pruned(spec, &mut errors);
    errors
}

fn named(definition: &Map, errors: &mut Errors) {
    let spec = definition.object("spec");
    let name = definition.metadata().text("name");
    let wanted = format!("{}.{}", spec.object("names").text("plural"), spec.text("group"));
    errors.push_if(name != wanted, || {
        FieldError::invalid("metadata.name", quoted(name), "must be spec.names.plural+\".\"+spec.group")
    });
}

fn pruned(spec: &Map, errors: &mut Errors) {
    errors.push_if(spec.is_true("preserveUnknownFields"), || {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema \
            instead";
        FieldError::invalid("spec.preserveUnknownFields", "true", detail)
    });
}

fn of_spec(spec: &Map, compiler: Option<&dyn RuleCompiler>, errors: &mut Errors) {
    let group = spec.text("group");
    let faults = subdomain_errors(group);
    let wrong = match group {
        "" => Some(FieldError::required("spec.group", "")),
        group if !faults.is_empty() => {
            Some(FieldError::invalid("spec.group", quoted(group), faults.join(",")))
        }
        group if !group.contains('.') => {
            Some(FieldError::invalid("spec.group", quoted(group), "should be a domain with at least one dot"))
        }
        _ => None,
    };
    errors.extend(wrong);
    match spec.text("scope") {
        "" => errors.push(FieldError::required("spec.scope", "")),
        "Cluster" | "Namespaced" => {}
        other => {
            errors.push(FieldError::not_supported("spec.scope", quoted(other), &["Cluster", "Namespaced"]))
        }
    }
    versions::check(spec, compiler, errors);
    let mut seen = HashSet::new();
    let is_twice = !spec.objects("versions").all(|version| seen.insert(version.text("name")));
    let storage = spec.objects("versions").filter(|version| version.is_true("storage")).count();
    for (is_wrong, detail) in [
        (is_twice, "must contain unique version names"),
        (storage != 1, "must have exactly one version marked as storage version"),
    ] {
        errors.push_if(is_wrong, || FieldError::invalid("spec.versions", "[]", detail));
    }
    let of_names = spec.object("names");
    for name in ["plural", "singular", "kind", "listKind"] {
        errors.push_if(of_names.text(name).is_empty(), || {
            FieldError::required(format!("spec.names.{name}"), "")
        });
    }
    names::check(of_names, "spec.names", errors);
    conversion(spec.object("conversion"), errors);
}

/// DIVERGES: Kubernetes also converts by webhook. Here a definition that asks for that is refused.
fn conversion(conversion: &Map, errors: &mut Errors) {
    const CONFIG: &str = "spec.conversion.webhookClientConfig";
    const REVIEWS: &str = "spec.conversion.conversionReviewVersions";
    let webhook = conversion.object("webhook");
    let has_reviews = !webhook.list("conversionReviewVersions").is_empty();
    let has_config = webhook.has("clientConfig");
    match conversion.text("strategy") {
        "Webhook" => {
            errors.push_if(!has_config, || {
                FieldError::required(CONFIG, "required when strategy is set to Webhook")
            });
            errors.push_if(!has_reviews, || FieldError::required(REVIEWS, "must specify at least one"));
            errors.push_if(has_config && has_reviews, || {
                let detail = "this server does not convert by webhooks: use None, with schemas of which each version \
                    keeps the fields that it shares with others";
                FieldError::forbidden("spec.conversion.strategy", detail)
            });
        }
        "None" => {
            let detail = "should not be set when strategy is not set to Webhook";
            errors.push_if(has_config, || FieldError::forbidden(CONFIG, detail));
            errors.push_if(has_reviews, || FieldError::forbidden(REVIEWS, detail));
        }
        "" => errors.push(FieldError::required("spec.conversion.strategy", "")),
        other => errors.push(FieldError::not_supported(
            "spec.conversion.strategy",
            quoted(other),
            &["None", "Webhook"],
        )),
    }
}

/// The group and the plural name never change, because the keys of objects contain them. The scope and the kind do not change
/// once the kind is established.
fn immutable(definition: &Map, old: &Map, errors: &mut Errors) {
    let (spec, before) = (definition.object("spec"), old.object("spec"));
    let mut keep = |field: &str, new: &str, old: &str| {
        errors.push_if(new != old, || FieldError::invalid(field, quoted(new), "field is immutable"));
    };
    let (names, names_before) = (spec.object("names"), before.object("names"));
    if status::holds(old, "Established") {
        keep("spec.scope", spec.text("scope"), before.text("scope"));
        keep("spec.names.kind", names.text("kind"), names_before.text("kind"));
    }
    keep("spec.group", spec.text("group"), before.text("group"));
    keep("spec.names.plural", names.text("plural"), names_before.text("plural"));
}

fn stored_versions(status: &Map, spec: &Map, errors: &mut Errors) {
    const FIELD: &str = "status.storedVersions";
    let stored: HashMap<&str, usize> =
        status.texts("storedVersions").enumerate().map(|(at, name)| (name, at)).collect();
    let shown = || Value::from(status.list("storedVersions")).to_string();
    if stored.is_empty() {
        errors.push(FieldError::invalid(FIELD, shown(), "must have at least one stored version"));
        return;
    }
    let mut known = HashSet::new();
    for version in spec.objects("versions") {
        let name = version.text("name");
        known.insert(name);
        errors.push_if(version.is_true("storage") && !stored.contains_key(name), || {
            FieldError::invalid(FIELD, shown(), format!("must have the storage version {name}"))
        });
    }
    for (at, name) in status.texts("storedVersions").enumerate() {
        errors.push_if(!known.contains(name) && stored.get(name) == Some(&at), || {
            FieldError::invalid(format!("{FIELD}[{at}]"), quoted(name), "missing from spec.versions")
        });
    }
}

/// How far a group of Kubernetes is approved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approval {
    /// By the address of a pull request.
    Approved,
    /// The annotation says that it is not.
    Bypassed,
    /// The annotation is neither.
    Invalid,
    /// There is no annotation.
    Missing,
}

impl Approval {
    /// The approval of a definition; none for a group that needs none.
    pub fn of(definition: &Map) -> Option<Self> {
        let group = definition.object("spec").text("group");
        let is_in = |domain: &str| {
            group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        (is_in("k8s.io") || is_in("kubernetes.io")).then(|| {
            match definition.metadata().object("annotations").text(APPROVED) {
                "" => Self::Missing,
                text if text.starts_with("unapproved") => Self::Bypassed,
                text if text.split_once("://").is_some_and(|(scheme, rest)| {
                    scheme.chars().all(|c| c.is_ascii_alphanumeric())
                        && !scheme.is_empty()
                        && !rest.split('/').next().unwrap_or_default().is_empty()
                }) =>
                {
                    Self::Approved
                }
                _ => Self::Invalid,
            }
        })
    }
}

fn approval(definition: &Map, old: Option<&Map>, errors: &mut Errors) {
    let Some(approval) = Approval::of(definition) else { return };
    if old.is_some_and(|old| Approval::of(old) == Some(approval)) {
        return;
    }
    let field = format!("metadata.annotations[{APPROVED}]");
    let detail = "protected groups must have approval annotation \"api-approved.kubernetes.io\", see \
        https://github.com/kubernetes/enhancements/pull/1111";
    match approval {
        Approval::Missing => errors.push(FieldError::required(field, detail)),
        Approval::Invalid => {
            let text = definition.metadata().object("annotations").text(APPROVED);
            errors.push(FieldError::invalid(
                field,
                quoted(text),
                "must be a URL, or begin with \"unapproved\"",
            ));
        }
        Approval::Approved | Approval::Bypassed => {}
    }
}
