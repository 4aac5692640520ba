//! Reads deny rules: a document of kind DenyRules.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use portcullis_apimachinery::json::{self, JsonError};
use serde::Deserialize;

use super::pattern::Pattern;
use super::selector::{self, WrittenSelector};
use super::subject::Subject;
use super::{COLLECTIONS, DenyRules, Rule, is_without_namespace};
use crate::objects::rbac::PolicyRule;
use crate::request::{Attributes, ResourceRequest, User};

const API_VERSION: &str = "portcullis.dev/v1";
const KIND: &str = "DenyRules";

/// The most rules.
pub const MOST_RULES: usize = 10_000;
/// The most words of all rules together.
const MOST_WORDS: usize = 200_000;

/// An error in deny rules, which are refused as a whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DenyError {
    /// Not JSON, or not of this schema.
    #[error(transparent)]
    Undecodable(#[from] JsonError),
    /// A field has an invalid value.
    #[error("{path}: {why}")]
    Invalid {
        /// The field.
        path: String,
        /// What is wrong with it, and what to do.
        why: String,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Document {
    api_version: String,
    kind: String,
    #[serde(default)]
    rules: Vec<Written>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    name: String,
    #[serde(default)]
    message: String,
    subjects: Vec<WrittenSubject>,
    #[serde(default)]
    except: Vec<WrittenSubject>,
    verbs: Vec<String>,
    #[serde(default)]
    api_groups: Vec<String>,
    #[serde(default)]
    resources: Vec<String>,
    #[serde(default)]
    resource_names: Vec<String>,
    #[serde(default)]
    namespaces: Vec<String>,
    namespace_selector: Option<WrittenSelector>,
    #[serde(default, rename = "nonResourceURLs")]
    non_resource_urls: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenSubject {
    kind: String,
    name: String,
    #[serde(default)]
    namespace: String,
}

fn invalid(path: impl fmt::Display, why: impl fmt::Display) -> DenyError {
    DenyError::Invalid { path: path.to_string(), why: why.to_string() }
}

impl DenyRules {
    /// Reads a document in JSON.
    ///
    /// # Errors
    /// The first error; no rule is used then.
    pub fn parse(text: &str) -> Result<Self, DenyError> {
        json::check(text)?;
        let document: Document =
            serde_json::from_str(text).map_err(|error| JsonError::of_decoding(text, &error))?;
        if document.api_version != API_VERSION || document.kind != KIND {
            return Err(invalid("apiVersion", format_args!("expected kind {KIND} of {API_VERSION}")));
        }
        if document.rules.len() > MOST_RULES {
            return Err(invalid(
                "rules",
                format_args!("there are {}: at most {MOST_RULES}", document.rules.len()),
            ));
        }
        let words: usize = document.rules.iter().map(Written::words).sum();
        if words > MOST_WORDS {
            return Err(invalid("rules", format_args!("they have {words} words: at most {MOST_WORDS}")));
        }
        let (mut rules, mut names) = (Self::default(), BTreeSet::new());
        for (number, written) in document.rules.into_iter().enumerate() {
            let path = format!("rules[{number}]");
            if !names.insert(written.name.clone()) {
                return Err(invalid(format_args!("{path}.name"), "another rule has this name"));
            }
            let rule = written.read(&path)?;
            rules.warnings.extend(warnings(&rule));
            rules.index(rule);
        }
        Ok(rules)
    }
}

impl Written {
    fn words(&self) -> usize {
        let lists = [
            &self.verbs,
            &self.api_groups,
            &self.resources,
            &self.resource_names,
            &self.namespaces,
            &self.non_resource_urls,
        ];
        let words: usize = lists.iter().map(|list| list.len()).sum();
        let of_selector = self.namespace_selector.as_ref().map_or(0, WrittenSelector::words);
        [self.subjects.len(), self.except.len(), of_selector].into_iter().fold(words, usize::saturating_add)
    }

    fn read(self, path: &str) -> Result<Rule, DenyError> {
        let field = |name: &str| format!("{path}.{name}");
        let needs = |is_there: bool, name: &str, why: &str| match is_there {
            true => Ok(()),
            false => Err(invalid(field(name), why)),
        };
        needs(!self.name.is_empty(), "name", "is empty: name each rule, so that a refusal can name it")?;
        needs(!self.subjects.is_empty(), "subjects", "is empty: name whom the rule binds")?;
        needs(!self.verbs.is_empty(), "verbs", "is empty: write * for all")?;
        let has_resources = !self.resources.is_empty();
        needs(
            has_resources || !self.non_resource_urls.is_empty(),
            "resources",
            "is empty, and so is nonResourceURLs: name what is denied",
        )?;
        needs(
            has_resources != self.api_groups.is_empty(),
            "apiGroups",
            "goes with resources: both or neither; the core group is the empty text",
        )?;
        needs(
            has_resources
                || (self.resource_names.is_empty()
                    && self.namespaces.is_empty()
                    && self.namespace_selector.is_none()),
            "resources",
            "is empty, but there are resourceNames, namespaces or a namespaceSelector",
        )?;
        let selector = self.namespace_selector.map(WrittenSelector::read).transpose();
        let selector = selector.map_err(|why| invalid(field("namespaceSelector"), why))?;
        let patterns = |list: Vec<String>, name: &str| {
            let read = |(at, text): (usize, String)| {
                Pattern::of_name(&text).map_err(|why| invalid(format_args!("{}[{at}]", field(name)), why))
            };
            list.into_iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()
        };
        let subjects = |list: Vec<WrittenSubject>, name: &str| {
            let read = |(at, subject): (usize, WrittenSubject)| {
                subject.read().map_err(|why| invalid(format_args!("{}[{at}]", field(name)), why))
            };
            list.into_iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()
        };
        let reason = match self.message.as_str() {
            "" => format!("denied by rule {:?}", self.name),
            message => format!("denied by rule {:?}: {message}", self.name),
        };
        Ok(Rule {
            name: self.name.into(),
            subjects: subjects(self.subjects, "subjects")?,
            except: subjects(self.except, "except")?,
            names: patterns(self.resource_names, "resourceNames")?,
            namespaces: patterns(self.namespaces, "namespaces")?,
            selector,
            rule: PolicyRule {
                verbs: self.verbs,
                api_groups: self.api_groups,
                resources: self.resources,
                resource_names: Vec::new(),
                non_resource_urls: self.non_resource_urls,
            },
            reason: Arc::from(reason),
        })
    }
}

impl WrittenSubject {
    fn read(self) -> Result<Subject, String> {
        if self.name.is_empty() {
            return Err("the name is empty: write * for all".to_owned());
        }
        match self.kind.as_str() {
            "ServiceAccount" if self.namespace.is_empty() => {
                Err("a ServiceAccount has a namespace: write * for all".to_owned())
            }
            "ServiceAccount" => Ok(Subject::ServiceAccount {
                namespace: Pattern::of_name(&self.namespace)?,
                name: Pattern::of_name(&self.name)?,
            }),
            "User" | "Group" if !self.namespace.is_empty() => {
                Err(format!("a {} has no namespace", self.kind))
            }
            "User" => Pattern::of_user(&self.name).map(Subject::User),
            "Group" => Pattern::of_user(&self.name).map(Subject::Group),
            kind => Err(format!("{kind:?} is no kind of subject: use User, Group or ServiceAccount")),
        }
    }
}

/// What is probably a mistake: a rule that never matches, and one after which only `system:masters` can repair the cluster.
fn warnings(rule: &Rule) -> Vec<String> {
    let mut warnings = Vec::new();
    let name = &rule.name;
    let is_only_create = rule.rule.verbs.iter().all(|verb| verb == "create");
    if !rule.names.is_empty() && is_only_create {
        warnings.push(format!(
            "rule {name:?} never matches: a request to create an object has no name when it is authorized"
        ));
    }
    let is_excepted = |subject: &Subject| rule.except.iter().any(|except| subject.is_within(except));
    if rule.subjects.iter().all(is_excepted) {
        warnings.push(format!("rule {name:?} never matches: all of its subjects are excepted"));
    }
    if rule.is_namespaced() && !has_namespaced_resource(&rule.rule) {
        warnings.push(format!(
            "rule {name:?} never matches: it names namespaces, and all of its resources are in no namespace"
        ));
    }
    if rule.selector.as_ref().is_some_and(selector::never_selects) {
        warnings.push(format!("rule {name:?} never matches: no labels satisfy its namespaceSelector"));
    }
    for url in rule.rule.non_resource_urls.iter().filter(|url| !url.starts_with('/') && *url != "*") {
        warnings.push(format!("rule {name:?} never matches the path {url:?}: paths begin with /"));
    }
    let has_collection =
        rule.rule.verbs.iter().any(|verb| verb == "*" || COLLECTIONS.contains(&verb.as_str()));
    // Subresources are not listed.
    let has_objects = rule.rule.resources.iter().any(|resource| !resource.contains('/'));
    if rule.rule.verbs.iter().any(|verb| verb == "get") && !has_collection && has_objects {
        warnings.push(format!(
            "rule {name:?} denies get, and not list and watch, whose answers hold the same objects"
        ));
    }
    if locks_out(rule) {
        warnings.push(format!(
            "rule {name:?} denies everybody to change roles and bindings: only group system:masters can then repair a mistake; \
             name an administrator in except"
        ));
    }
    warnings
}

/// Whether a rule may be about a resource that is in a namespace.
fn has_namespaced_resource(rule: &PolicyRule) -> bool {
    rule.api_groups.iter().any(|group| {
        rule.resources.iter().any(|resource| {
            let plural = resource.split('/').next().unwrap_or_default();
            group == "*" || plural == "*" || !is_without_namespace(group, plural)
        })
    })
}

/// Whether nobody may change bindings any more.
fn locks_out(rule: &Rule) -> bool {
    let somebody = User::new("\u{1}somebody", ["system:authenticated"]);
    let binding = ResourceRequest {
        group: "rbac.authorization.k8s.io",
        version: "v1",
        resource: "clusterrolebindings",
        name: "\u{1}any",
        ..ResourceRequest::default()
    };
    ["update", "create"].iter().any(|verb| {
        let asked = Attributes { user: &somebody, verb, path: "", resource: Some(binding) };
        rule.denies(&asked, None).is_some()
    }) && rule.except.is_empty()
}
