//! The part `jwt` of an AuthenticationConfiguration: issuers, validated as kube-apiserver does.
//!
//! DIVERGES: an issuer has at most 64 audiences, rules of a kind, and extra mappings. `egressSelectorType` is refused: this server
//! has no egress selectors.

use std::sync::Arc;

use hashbrown::HashSet;
use http::Uri;
use portcullis_apimachinery::field_error::FieldError;
use serde::Deserialize;

use super::distributed::Distributed;
use super::issuer::{Issuer, KeyPlace};
use super::keys::{FETCH, Keys};
use super::mapping::{Attribute, ClaimRule, EMAIL, EMAIL_VERIFIED, Mapping, Rule};
use crate::authn::impersonation::is_domain_prefixed;
use crate::match_conditions::claims::{Expression, Purpose};
use crate::remote::fetch::Fetcher;

/// The most issuers.
const MAX_ISSUERS: usize = 64;
/// The most audiences, rules of a kind and extra mappings of an issuer.
const MAX_ENTRIES: usize = 64;
/// The URL of the discovery document of an issuer.
const DISCOVERY: &str = "/.well-known/openid-configuration";
/// The domains whose keys of extra Kubernetes keeps for itself.
const RESERVED: [&str; 2] = ["kubernetes.io", "k8s.io"];

/// The settings for all issuers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IssuerSettings {
    /// The issuers of service account tokens, which nobody else can be.
    pub service_account_issuers: Vec<String>,
    /// `--jwt-allow-system-names`.
    pub allows_system_names: bool,
}

/// An entry of `jwt`, as decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct JwtEntry {
    issuer: IssuerEntry,
    claim_validation_rules: Option<Vec<ClaimRuleEntry>>,
    claim_mappings: MappingsEntry,
    user_validation_rules: Option<Vec<UserRuleEntry>>,
}

/// The field `issuer`: the URL of the issuer, and its audiences.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct IssuerEntry {
    url: String,
    #[serde(rename = "discoveryURL")]
    discovery_url: Option<String>,
    certificate_authority: String,
    audiences: Option<Vec<String>>,
    audience_match_policy: String,
    egress_selector_type: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct ClaimRuleEntry {
    claim: String,
    required_value: String,
    expression: String,
    message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct UserRuleEntry {
    expression: String,
    message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct MappingsEntry {
    username: PrefixedEntry,
    groups: PrefixedEntry,
    uid: PlainEntry,
    extra: Option<Vec<ExtraEntry>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PrefixedEntry {
    claim: String,
    prefix: Option<String>,
    expression: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PlainEntry {
    claim: String,
    expression: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct ExtraEntry {
    key: String,
    value_expression: String,
}

impl IssuerEntry {
    fn audiences(&self) -> &[String] {
        self.audiences.as_deref().unwrap_or_default()
    }

    fn discovery(&self) -> Option<&str> {
        self.discovery_url.as_deref().filter(|url| !url.is_empty())
    }

    fn place(&self) -> KeyPlace {
        KeyPlace {
            url: self.url.clone(),
            discovery: self.discovery().map(str::to_owned),
            authorities: self.certificate_authority.clone(),
        }
    }
}

/// Validates the issuers.
///
/// # Errors
/// All that is wrong, by field.
pub fn validate(entries: &[JwtEntry], settings: &IssuerSettings) -> Result<Vec<Issuer>, Vec<FieldError>> {
    if entries.len() > MAX_ISSUERS {
        return Err(vec![FieldError::too_many("jwt", entries.len(), MAX_ISSUERS)]);
    }
    let mut faults = Faults(Vec::new());
    let mut seen = Seen { urls: HashSet::new(), discoveries: HashSet::new(), settings };
    let issuers: Vec<Issuer> = entries
        .iter()
        .enumerate()
        .filter_map(|(at, entry)| {
            let path = format!("jwt[{at}]");
            let keys = entry.issuer.validate(&format!("{path}.issuer"), &mut seen, &mut faults);
            let mapping = entry.mapping(&path, settings.allows_system_names, &mut faults);
            let distributed = match &mapping.as_ref()?.groups {
                Some(Attribute::Claim { name, .. }) => Some(Distributed::new(name.clone())),
                _ => None,
            };
            Some(Issuer {
                place: entry.issuer.place(),
                audiences: entry.issuer.audiences().to_vec(),
                keys: keys?,
                mapping: mapping?,
                distributed,
            })
        })
        .collect();
    if faults.0.is_empty() { Ok(issuers) } else { Err(faults.0) }
}

/// The values that must be unique among the issuers.
struct Seen<'e> {
    urls: HashSet<&'e str>,
    discoveries: HashSet<&'e str>,
    settings: &'e IssuerSettings,
}

struct Faults(Vec<FieldError>);

impl Faults {
    fn required(&mut self, path: &str, detail: &str) {
        self.0.push(FieldError::required(path, detail));
    }

    fn invalid(&mut self, path: &str, value: &str, detail: &str) {
        self.0.push(FieldError::invalid(path, format!("{value:?}"), detail));
    }

    fn duplicate(&mut self, path: &str, value: &str) {
        self.0.push(FieldError::duplicate(path, format!("{value:?}")));
    }

    /// The entries of a list, which are none if there are too many.
    fn bounded<'e, T>(&mut self, path: &str, entries: Option<&'e Vec<T>>) -> &'e [T] {
        let entries = entries.map(Vec::as_slice).unwrap_or_default();
        if entries.len() > MAX_ENTRIES {
            self.0.push(FieldError::too_many(path, entries.len(), MAX_ENTRIES));
            return &[];
        }
        entries
    }

    /// A URL of the form `https://HOST[:PORT][/PATH]`.
    fn url(&mut self, path: &str, text: &str) -> Option<Uri> {
        let uri: Option<Uri> = text.parse().ok();
        let why = match &uri {
            _ if text.contains('#') => "URL must not contain a fragment",
            None => "not a URL",
            Some(uri) if uri.scheme_str() != Some("https") => "URL scheme must be https",
            Some(uri) if uri.authority().is_some_and(|host| host.as_str().contains('@')) => {
                "URL must not contain a username or password"
            }
            Some(uri) if uri.query().is_some() => "URL must not contain a query",
            Some(_) => return uri,
        };
        self.invalid(path, text, why);
        None
    }
}

impl IssuerEntry {
    fn validate<'e>(&'e self, path: &str, seen: &mut Seen<'e>, faults: &mut Faults) -> Option<Arc<Keys>> {
        let of = |field: &str| format!("{path}.{field}");
        self.check_url(&of("url"), seen, faults);
        self.check_audiences(path, faults);
        if !self.egress_selector_type.is_empty() {
            let why = "this server has no egress selectors: leave this out";
            faults.invalid(&of("egressSelectorType"), &self.egress_selector_type, why);
        }
        let fetcher = Fetcher::new(&self.certificate_authority, FETCH);
        let fetcher = fetcher.map_err(|why| {
            faults.invalid(&of("certificateAuthority"), "<omitted>", &why);
        });
        let discovery = match self.discovery() {
            None => format!("{}{DISCOVERY}", self.url.strip_suffix('/').unwrap_or(&self.url)).parse().ok(),
            Some(url) => {
                if url.trim_end_matches('/') == self.url.trim_end_matches('/') {
                    faults.invalid(&of("discoveryURL"), url, "discoveryURL must be different from URL");
                }
                if !seen.discoveries.insert(url) {
                    faults.duplicate(&of("discoveryURL"), url);
                }
                faults.url(&of("discoveryURL"), url)
            }
        };
        Some(Keys::new(self.url.clone(), discovery?, fetcher.ok()?))
    }

    fn check_url<'e>(&'e self, path: &str, seen: &mut Seen<'e>, faults: &mut Faults) {
        if self.url.is_empty() {
            return faults.required(path, "URL is required");
        }
        if seen.settings.service_account_issuers.contains(&self.url) {
            faults.invalid(
                path,
                &self.url,
                "URL must not overlap with disallowed issuers: service accounts have it",
            );
        }
        if !seen.urls.insert(&self.url) {
            faults.duplicate(path, &self.url);
        }
        faults.url(path, &self.url);
    }

    fn check_audiences(&self, path: &str, faults: &mut Faults) {
        let at = format!("{path}.audiences");
        let audiences = faults.bounded(&at, self.audiences.as_ref());
        if self.audiences().is_empty() {
            faults.required(&at, "at least one jwt[].issuer.audiences is required");
        }
        let mut seen = HashSet::new();
        for (i, audience) in audiences.iter().enumerate() {
            let at = format!("{at}[{i}]");
            if audience.is_empty() {
                faults.required(&at, "audience can't be empty");
            } else if !seen.insert(audience) {
                faults.duplicate(&at, audience);
            }
        }
        let policy = self.audience_match_policy.as_str();
        let at = format!("{path}.audienceMatchPolicy");
        match (policy, audiences.len()) {
            ("MatchAny", _) | ("", 0 | 1) => {}
            ("", _) => {
                faults.invalid(&at, policy, "audienceMatchPolicy must be MatchAny for multiple audiences")
            }
            _ => faults.invalid(&at, policy, "audienceMatchPolicy must be empty or MatchAny"),
        }
    }
}

/// The expressions of an issuer, which are compiled together.
#[derive(Default)]
struct Expressions {
    texts: Vec<(String, Purpose)>,
    paths: Vec<String>,
}

/// The place of an expression among those of its issuer.
#[derive(Clone, Copy)]
struct Place(usize);

impl Expressions {
    fn add(&mut self, path: String, text: &str, purpose: Purpose) -> Place {
        self.paths.push(path);
        self.texts.push((text.to_owned(), purpose));
        Place(self.texts.len().saturating_sub(1))
    }

    /// Compiles all; none where one is wrong.
    fn compile(self, faults: &mut Faults) -> Compiled {
        let texts: Vec<String> = self.texts.iter().map(|(text, _)| text.clone()).collect();
        let compiled = Expression::compile(self.texts).into_iter().zip(self.paths.iter().zip(&texts));
        let each = compiled.map(|(compiled, (path, text))| {
            compiled.map_err(|why| faults.invalid(path, text, &format!("compilation failed: {why}"))).ok()
        });
        Compiled(each.collect())
    }
}

struct Compiled(Vec<Option<Expression>>);

impl Compiled {
    fn take(&mut self, Place(at): Place) -> Option<Expression> {
        self.0.get_mut(at)?.take()
    }

    fn reads_claim(&self, Place(at): Place, name: &str) -> bool {
        self.0.get(at).and_then(Option::as_ref).is_some_and(|one| one.reads_claim(name))
    }
}

/// A checked attribute whose expression is not compiled yet.
enum Planned {
    Claim { name: String, prefix: String },
    Expression(Place),
}

impl Planned {
    fn taken(self, compiled: &mut Compiled) -> Option<Attribute> {
        Some(match self {
            Self::Claim { name, prefix } => Attribute::Claim { name, prefix },
            Self::Expression(place) => Attribute::Expression(compiled.take(place)?),
        })
    }
}

/// A checked rule about claims.
enum PlannedRule {
    Required { claim: String, value: String },
    Expression(Place, String),
}

impl JwtEntry {
    fn mapping(&self, path: &str, allows_system_names: bool, faults: &mut Faults) -> Option<Mapping> {
        let mut expressions = Expressions::default();
        let rules = self.claim_rules(path, &mut expressions, faults);
        let mappings = format!("{path}.claimMappings");
        let at = format!("{mappings}.username");
        let username = self.claim_mappings.username.plan(&at, &mut expressions, faults);
        if username.is_none() && self.claim_mappings.username.is_empty() {
            faults.required(&at, "claim or expression is required");
        }
        let at = format!("{mappings}.groups");
        let groups = self.claim_mappings.groups.plan(&at, &mut expressions, faults);
        let uid = self.claim_mappings.uid.plan(&format!("{mappings}.uid"), &mut expressions, faults);
        let extra = self.extra(&format!("{mappings}.extra"), &mut expressions, faults);
        let user_rules = self.user_rules(path, &mut expressions, faults);
        let mut compiled = expressions.compile(faults);
        self.check_email(&mappings, (username.as_ref(), &extra, &rules), &compiled, faults);
        let rule = |place, message, compiled: &mut Compiled| {
            Some(Rule { expression: compiled.take(place)?, message })
        };
        Some(Mapping {
            username: username?.taken(&mut compiled)?,
            groups: groups.and_then(|groups| groups.taken(&mut compiled)),
            uid: uid.and_then(|uid| uid.taken(&mut compiled)),
            extra: extra.into_iter().filter_map(|(key, place)| Some((key, compiled.take(place)?))).collect(),
            claim_rules: rules
                .into_iter()
                .filter_map(|planned| match planned {
                    PlannedRule::Required { claim, value } => Some(ClaimRule::Required { claim, value }),
                    PlannedRule::Expression(place, message) => {
                        rule(place, message, &mut compiled).map(ClaimRule::Expression)
                    }
                })
                .collect(),
            user_rules: user_rules
                .into_iter()
                .filter_map(|(place, message)| rule(place, message, &mut compiled))
                .collect(),
            allows_system_names,
        })
    }

    fn claim_rules(
        &self,
        path: &str,
        expressions: &mut Expressions,
        faults: &mut Faults,
    ) -> Vec<PlannedRule> {
        let list = format!("{path}.claimValidationRules");
        let (mut claims, mut texts) = (HashSet::new(), HashSet::new());
        let mut rules = Vec::new();
        for (at, rule) in faults.bounded(&list, self.claim_validation_rules.as_ref()).iter().enumerate() {
            let path = format!("{list}[{at}]");
            match (rule.claim.as_str(), rule.expression.as_str()) {
                ("", "") => faults.required(&path, "claim or expression is required"),
                ("", text) => {
                    if !rule.required_value.is_empty() {
                        let why = "requiredValue can't be set when expression is set";
                        faults.invalid(&format!("{path}.requiredValue"), &rule.required_value, why);
                    }
                    let path = format!("{path}.expression");
                    if !texts.insert(text) {
                        faults.duplicate(&path, text);
                    }
                    let place = expressions.add(path, text, Purpose::ClaimRule);
                    rules.push(PlannedRule::Expression(place, message(&rule.message, text)));
                }
                (claim, "") => {
                    if !rule.message.is_empty() {
                        let why = "message can't be set when claim is set";
                        faults.invalid(&format!("{path}.message"), &rule.message, why);
                    }
                    if !claims.insert(claim) {
                        faults.duplicate(&format!("{path}.claim"), claim);
                    }
                    rules.push(PlannedRule::Required {
                        claim: claim.to_owned(),
                        value: rule.required_value.clone(),
                    });
                }
                (claim, _) => faults.invalid(&path, claim, "claim and expression can't both be set"),
            }
        }
        rules
    }

    fn user_rules(
        &self,
        path: &str,
        expressions: &mut Expressions,
        faults: &mut Faults,
    ) -> Vec<(Place, String)> {
        let list = format!("{path}.userValidationRules");
        let mut seen = HashSet::new();
        let mut rules = Vec::new();
        for (at, rule) in faults.bounded(&list, self.user_validation_rules.as_ref()).iter().enumerate() {
            let (path, text) = (format!("{list}[{at}].expression"), rule.expression.as_str());
            if text.is_empty() {
                faults.required(&path, "expression is required");
                continue;
            }
            if !seen.insert(text) {
                faults.duplicate(&path, text);
            }
            rules.push((expressions.add(path, text, Purpose::UserRule), message(&rule.message, text)));
        }
        rules
    }

    fn extra(&self, list: &str, expressions: &mut Expressions, faults: &mut Faults) -> Vec<(String, Place)> {
        let mut seen = HashSet::new();
        let mut planned = Vec::new();
        for (at, entry) in faults.bounded(list, self.claim_mappings.extra.as_ref()).iter().enumerate() {
            let (path, key) = (format!("{list}[{at}]"), entry.key.as_str());
            let at_key = format!("{path}.key");
            let domain = key.split('/').next().unwrap_or_default();
            let is_reserved = |reserved: &&str| {
                domain.strip_suffix(*reserved).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            };
            if key.is_empty() {
                faults.required(&at_key, "");
            } else if !is_domain_prefixed(key) {
                faults.invalid(
                    &at_key,
                    key,
                    "must be a lower-case domain-prefixed path, such as example.org/foo",
                );
            } else if RESERVED.iter().any(is_reserved) {
                faults.invalid(&at_key, key, "k8s.io, kubernetes.io and their subdomains are reserved");
            } else if !seen.insert(key) {
                faults.duplicate(&at_key, key);
            }
            let at_value = format!("{path}.valueExpression");
            if entry.value_expression.is_empty() {
                faults.required(&at_value, "valueExpression is required");
                continue;
            }
            let place = expressions.add(at_value, &entry.value_expression, Purpose::Mapping);
            planned.push((key.to_owned(), place));
        }
        planned
    }

    /// A user name that is an address needs a look at whether the issuer has verified that it is the user's.
    fn check_email(
        &self,
        path: &str,
        (username, extra, rules): (Option<&Planned>, &[(String, Place)], &[PlannedRule]),
        compiled: &Compiled,
        faults: &mut Faults,
    ) {
        let Some(Planned::Expression(username)) = username else { return };
        let rules = rules.iter().filter_map(|rule| match rule {
            PlannedRule::Expression(place, _) => Some(*place),
            PlannedRule::Required { .. } => None,
        });
        let mut places = extra.iter().map(|(_, place)| *place).chain(rules).chain([*username]);
        if compiled.reads_claim(*username, EMAIL)
            && !places.any(|place| compiled.reads_claim(place, EMAIL_VERIFIED))
        {
            let text = &self.claim_mappings.username.expression;
            faults.invalid(
                &format!("{path}.username.expression"),
                text,
                "claims.email_verified must be used in claimMappings.username.expression, \
                 claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used \
                 in claimMappings.username.expression",
            );
        }
    }
}

/// The message of a refusal.
fn message(message: &str, expression: &str) -> String {
    if message.is_empty() { expression.to_owned() } else { message.to_owned() }
}

impl PrefixedEntry {
    fn is_empty(&self) -> bool {
        self.claim.is_empty() && self.expression.is_empty()
    }

    fn plan(&self, path: &str, expressions: &mut Expressions, faults: &mut Faults) -> Option<Planned> {
        let prefix = self.prefix.as_deref();
        match (self.claim.as_str(), self.expression.as_str()) {
            ("", "") => None,
            ("", text) => {
                if let Some(prefix) = prefix {
                    let why = "prefix can't be set when expression is set";
                    faults.invalid(&format!("{path}.prefix"), prefix, why);
                }
                let path = format!("{path}.expression");
                Some(Planned::Expression(expressions.add(path, text, Purpose::Mapping)))
            }
            (claim, "") => {
                if prefix.is_none() {
                    faults.required(
                        &format!("{path}.prefix"),
                        "prefix is required when claim is set. It can be set to an empty string to disable prefixing",
                    );
                }
                let (name, prefix) = (claim.to_owned(), prefix.unwrap_or_default().to_owned());
                Some(Planned::Claim { name, prefix })
            }
            (claim, _) => {
                faults.invalid(path, claim, "claim and expression can't both be set");
                None
            }
        }
    }
}

impl PlainEntry {
    fn plan(&self, path: &str, expressions: &mut Expressions, faults: &mut Faults) -> Option<Planned> {
        let (claim, expression) = (self.claim.clone(), self.expression.clone());
        let prefix = (!claim.is_empty()).then(String::new);
        PrefixedEntry { claim, prefix, expression }.plan(path, expressions, faults)
    }
}
