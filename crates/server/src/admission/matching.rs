//! Which writes a webhook or a policy is about: rules, and the labels of the namespace and of the objects.

use kinds::Map;
use kinds::resource::Resource;
use kinds::resources::core::namespaces::NAMESPACES;
use kinds::resources::label_selectors::requirements;
use policy::objects::decode::{List, Text};
use portcullis_apimachinery::selector::LabelRequirement;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::OnceCell;

use super::question::{Facts, Question};
use super::rules::{Request, Rule, RuleText};
use super::versions;
use crate::http::status::Status;
use crate::registry::admission::AdmissionAttributes;

/// See the module.
pub(super) struct Matching {
    /// One of them must match. None for any write.
    rules: Option<Vec<Rule>>,
    /// None of them may match.
    excluded: Vec<Rule>,
    /// Whether requests for other versions of what the rules name are meant as well.
    is_for_equivalent: bool,
    namespaces: Vec<LabelRequirement>,
    objects: Vec<LabelRequirement>,
}

/// `matchConstraints` of a policy or `matchResources` of a binding, as written.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct MatchText<'a> {
    resource_rules: List<RuleText<'a>>,
    exclude_resource_rules: List<RuleText<'a>>,
    match_policy: Text<'a>,
    namespace_selector: Option<Map>,
    object_selector: Option<Map>,
}

impl Matching {
    /// The match criteria of a webhook: its rules, its match policy, and its selectors of namespaces and of objects.
    ///
    /// # Errors
    /// A selector cannot be read.
    pub(super) fn of_webhook(
        rules: &[RuleText<'_>],
        policy: &str,
        [namespaces, objects]: [Option<&Map>; 2],
    ) -> Result<Self, String> {
        let selector = |field: &str, selector: Option<&Map>| match selector {
            None => Ok(Vec::new()),
            Some(selector) => requirements(selector).ok_or_else(|| format!("{field} is no label selector")),
        };
        Ok(Self {
            rules: Some(rules.iter().map(Rule::of).collect()),
            excluded: Vec::new(),
            is_for_equivalent: policy != "Exact",
            namespaces: selector("namespaceSelector", namespaces)?,
            objects: selector("objectSelector", objects)?,
        })
    }

    /// The match criteria of a policy or a binding. Without rules everything matches.
    ///
    /// # Errors
    /// A selector cannot be read.
    pub(super) fn of_policy(text: &MatchText<'_>) -> Result<Self, String> {
        let selectors = [text.namespace_selector.as_ref(), text.object_selector.as_ref()];
        let found = Self::of_webhook(&text.resource_rules, &text.match_policy, selectors)?;
        Ok(Self {
            rules: found.rules.filter(|rules| !rules.is_empty()),
            excluded: text.exclude_resource_rules.iter().map(Rule::of).collect(),
            ..found
        })
    }

    /// The write as it is told in the version of the kind that the rules name; none if it is not meant.
    ///
    /// # Errors
    /// 404 if the namespace of the write is not there.
    pub(super) async fn matched<'r>(
        &self,
        attributes: &'r AdmissionAttributes<'_>,
        facts: Facts<'r, '_>,
        found: &Found,
    ) -> Result<Option<Question<'r>>, Status> {
        let Some(version) = self.version_for(facts.request(), &found.versions) else { return Ok(None) };
        if !self.is_in_namespace(attributes, facts.namespace(), found).await? {
            return Ok(None);
        }
        let question = facts.question(version);
        let is_selected = self.objects.is_empty()
            || is_selected(&self.objects, question.object())
            || is_selected(&self.objects, question.old());
        Ok(is_selected.then_some(question))
    }

    /// Whether a write may be meant: whether the rules match, whatever the labels are.
    pub(super) fn may_match(&self, facts: Facts<'_, '_>, found: &Found) -> bool {
        self.version_for(facts.request(), &found.versions).is_some()
    }

    /// The version of the kind that is meant, out of these: that of the request comes first. None if the rules do not match.
    fn version_for(&self, request: Request<'_>, versions: &[&'static Resource]) -> Option<&'static Resource> {
        let count = if self.is_for_equivalent { versions.len() } else { 1 };
        let versions = versions.get(..count).unwrap_or(versions);
        let has = |rules: &[Rule], row: &Resource| rules.iter().any(|rule| rule.matches(request, row));
        if versions.iter().any(|row| has(&self.excluded, row)) {
            return None;
        }
        match &self.rules {
            None => versions.first().copied(),
            Some(rules) => versions.iter().copied().find(|row| has(rules, row)),
        }
    }

    /// Whether the namespace of a write is selected. Objects outside of namespaces always are.
    ///
    /// # Errors
    /// 404 if the namespace is not there.
    async fn is_in_namespace(
        &self,
        attributes: &AdmissionAttributes<'_>,
        namespace: &str,
        found: &Found,
    ) -> Result<bool, Status> {
        if self.namespaces.is_empty() || namespace.is_empty() {
            return Ok(true);
        }
        // The new labels of a namespace count, which is not there yet or has others.
        let is_main = attributes.resource.is_namespace && attributes.subresource.is_empty();
        if let Some(object) = attributes.object.as_deref().or(attributes.old).filter(|_| is_main) {
            return Ok(is_selected(&self.namespaces, Some(object)));
        }
        Ok(is_selected(&self.namespaces, Some(found.namespace(attributes, namespace).await?)))
    }
}

/// Lookups shared by all webhooks or policies that may match a write.
pub(super) struct Found {
    versions: Vec<&'static Resource>,
    namespace: OnceCell<Option<Map>>,
}

impl Found {
    pub(super) fn of(attributes: &AdmissionAttributes<'_>) -> Self {
        let versions = versions::of(attributes.kinds, attributes.served);
        Self { versions, namespace: OnceCell::new() }
    }

    /// The namespace of the write.
    ///
    /// # Errors
    /// 404 if it is not there.
    pub(super) async fn namespace(
        &self,
        attributes: &AdmissionAttributes<'_>,
        name: &str,
    ) -> Result<&Map, Status> {
        let found = self.namespace.get_or_try_init(|| attributes.stored(&NAMESPACES, "", name)).await?;
        found.as_ref().ok_or_else(|| Status::no_object("", NAMESPACES.plural, name))
    }
}

/// Whether an object has these labels. One without metadata has none, and is not selected by anything but an empty selector.
fn is_selected(requirements: &[LabelRequirement], object: Option<&Map>) -> bool {
    let has_metadata = |object: &&Map| object.get("metadata").is_some_and(Value::is_object);
    requirements.is_empty()
        || object.filter(has_metadata).is_some_and(|object| kinds::meta::labels_match(requirements, object))
}
