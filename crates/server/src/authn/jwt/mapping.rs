//! From the claims of a verified token to a user: rules about the claims, mappings, and rules about the user.
//!
//! Names of claims are no paths: `person.name` is a claim at the top.
//!
//! DIVERGES: a user name or a group that begins with `system:` is refused, whether a prefix, a claim or an expression gives it: to
//! Kubernetes such names are its own, and whoever writes the claim `groups` would make anybody a member of `system:masters`.
//! `--jwt-allow-system-names` accepts them, as Kubernetes does.

use policy::User;
use serde_json::{Map, Value};

use crate::authn::caller::CREDENTIAL_ID;
use crate::match_conditions::claims::{Expression, Outcome, Subject};

/// The beginning of the names that Kubernetes keeps for itself.
const SYSTEM: &str = "system:";
/// The claim with an address, and the one that tells whether the address is that of the user.
pub(super) const EMAIL: &str = "email";
pub(super) const EMAIL_VERIFIED: &str = "email_verified";

/// The source of an attribute of the user.
pub(super) enum Attribute {
    /// From a claim, behind a prefix.
    Claim { name: String, prefix: String },
    /// From an expression.
    Expression(Expression),
}

/// A rule for the claims.
pub(super) enum ClaimRule {
    /// A claim has this value.
    Required { claim: String, value: String },
    /// An expression is true.
    Expression(Rule),
}

/// An expression that must be true.
pub(super) struct Rule {
    pub(super) expression: Expression,
    /// The message of a refusal.
    pub(super) message: String,
}

/// See the module.
pub(super) struct Mapping {
    pub(super) username: Attribute,
    pub(super) groups: Option<Attribute>,
    pub(super) uid: Option<Attribute>,
    pub(super) extra: Vec<(String, Expression)>,
    pub(super) claim_rules: Vec<ClaimRule>,
    pub(super) user_rules: Vec<Rule>,
    /// Whether names may begin with `system:`.
    pub(super) allows_system_names: bool,
}

/// The claims of a token, for both ways of reading them.
struct Claims<'c> {
    members: &'c Map<String, Value>,
    /// None without expressions.
    subject: Option<Subject>,
}

impl Mapping {
    /// Returns the user with these claims, without the group `system:authenticated`.
    ///
    /// # Errors
    /// Why nobody is. The text shows no value of a claim.
    pub(super) fn user(&self, claims: &Map<String, Value>) -> Result<User, String> {
        let subject = self.has_expressions().then(|| Subject::claims(claims));
        let claims = Claims { members: claims, subject };
        for rule in &self.claim_rules {
            match rule {
                ClaimRule::Required { claim, value } => {
                    if claims.text(claim)? != value {
                        return Err(format!("claim {claim:?} has not the required value"));
                    }
                }
                ClaimRule::Expression(rule) => rule.check(claims.subject.as_ref())?,
            }
        }
        let groups = self.groups.as_ref().map(|groups| claims.groups(groups)).transpose()?;
        let mut user = User::new(claims.username(&self.username)?, groups.unwrap_or_default());
        if let Some(uid) = &self.uid {
            user.uid = match uid {
                Attribute::Claim { name, .. } => claims.text(name)?.to_owned(),
                Attribute::Expression(expression) => claims.one(expression, "uid")?,
            };
        }
        for (key, expression) in &self.extra {
            let values = claims.many(expression, key)?;
            if !values.is_empty() {
                user.extra.insert(key.clone(), values);
            }
        }
        if let Some(id) = claims.members.get("jti").and_then(Value::as_str).filter(|id| !id.is_empty()) {
            user.extra.insert(CREDENTIAL_ID.to_owned(), vec![format!("JTI={id}")]);
        }
        if !self.allows_system_names {
            refuse_system_names(&user)?;
        }
        if !self.user_rules.is_empty() {
            let subject = Subject::user(&user);
            self.user_rules.iter().try_for_each(|rule| rule.check(Some(&subject)))?;
        }
        Ok(user)
    }

    /// Whether an expression reads the claims.
    fn has_expressions(&self) -> bool {
        let is_expression = |attribute: &Attribute| matches!(attribute, Attribute::Expression(_));
        let optional = self.groups.iter().chain(&self.uid);
        std::iter::once(&self.username).chain(optional).any(is_expression)
            || !self.extra.is_empty()
            || self.claim_rules.iter().any(|rule| matches!(rule, ClaimRule::Expression(_)))
    }
}

/// See the module.
fn refuse_system_names(user: &User) -> Result<(), String> {
    let is_reserved = |name: &str| name.starts_with(SYSTEM);
    if is_reserved(&user.name) {
        return Err(
            "the user name begins with \"system:\", which --jwt-allow-system-names would accept".to_owned()
        );
    }
    if user.groups.iter().any(|group| is_reserved(group)) {
        return Err("a group begins with \"system:\", which --jwt-allow-system-names would accept".to_owned());
    }
    Ok(())
}

impl Rule {
    fn check(&self, subject: Option<&Subject>) -> Result<(), String> {
        match subject.map(|subject| subject.value_of(&self.expression)) {
            Some(Ok(Outcome::Bool(true))) => Ok(()),
            Some(Ok(Outcome::Bool(false))) => Err(format!("validation expression failed: {}", self.message)),
            // The error may show a claim.
            _ => Err(format!("validation expression cannot be evaluated: {}", self.message)),
        }
    }
}

impl Claims<'_> {
    /// A claim that is a string. `null` is an empty one.
    fn text(&self, name: &str) -> Result<&str, String> {
        match self.members.get(name) {
            Some(Value::String(text)) => Ok(text),
            Some(Value::Null) => Ok(""),
            Some(_) => Err(format!("claim {name:?} is not a string")),
            None => Err(format!("claim {name:?} is not present")),
        }
    }

    fn username(&self, attribute: &Attribute) -> Result<String, String> {
        match attribute {
            Attribute::Claim { name, prefix } => {
                let text = self.text(name)?;
                let verified = self.members.get(EMAIL_VERIFIED);
                if name == EMAIL && verified.is_some_and(|verified| *verified != Value::Bool(true)) {
                    return Err("email is not verified".to_owned());
                }
                Ok(format!("{prefix}{text}"))
            }
            Attribute::Expression(expression) => {
                let name = self.one(expression, "username")?;
                if name.is_empty() { Err("the username is empty".to_owned()) } else { Ok(name) }
            }
        }
    }

    fn groups(&self, attribute: &Attribute) -> Result<Vec<String>, String> {
        let (name, prefix) = match attribute {
            Attribute::Claim { name, prefix } => (name, prefix),
            Attribute::Expression(expression) => return self.many(expression, "groups"),
        };
        let wrong = || format!("claim {name:?} is not a string or a list of strings");
        let groups = match self.members.get(name) {
            None | Some(Value::Null) => return Ok(Vec::new()),
            Some(Value::String(one)) => vec![one.as_str()],
            Some(Value::Array(many)) => {
                let text = |value| match value {
                    &Value::Null => Some(""),
                    value => Value::as_str(value),
                };
                many.iter().map(text).collect::<Option<_>>().ok_or_else(wrong)?
            }
            Some(_) => return Err(wrong()),
        };
        Ok(groups.into_iter().map(|group| format!("{prefix}{group}")).collect())
    }

    fn value_of(&self, expression: &Expression, what: &str) -> Result<Outcome, String> {
        let value = self.subject.as_ref().map(|subject| subject.value_of(expression));
        match value {
            Some(Ok(value)) => Ok(value),
            // The error may show a claim.
            _ => Err(format!("the expression for {what} cannot be evaluated")),
        }
    }

    /// The string that an expression gives.
    fn one(&self, expression: &Expression, what: &str) -> Result<String, String> {
        match self.value_of(expression, what)? {
            Outcome::Text(text) => Ok(text),
            _ => Err(format!("the expression for {what} does not return a string")),
        }
    }

    /// The strings that an expression gives. Empty ones are left out.
    fn many(&self, expression: &Expression, what: &str) -> Result<Vec<String>, String> {
        let mut texts = match self.value_of(expression, what)? {
            Outcome::Null => Vec::new(),
            Outcome::Text(text) => vec![text],
            Outcome::Texts(texts) => texts,
            Outcome::Bool(_) | Outcome::Other => {
                return Err(format!(
                    "the expression for {what} does not return a string or a list of strings"
                ));
            }
        };
        texts.retain(|text| !text.is_empty());
        Ok(texts)
    }
}
