//! The authorization checks of expressions about a write (the variable `authorizer`).
//!
//! Evaluating never waits, and authorizers may have to. So an expression that needs an answer which is not there yet fails, and
//! its question is noted. Whoever evaluates gets the answers, and evaluates again, until no question is open.
//!
//! DIVERGES: Kubernetes charges 350,000 of the 10,000,000 units of a policy for each check, and of the 2,500,000 of match
//! conditions, and at most 1,000,000 for one expression. Here only different questions count, to the same number in all; one that
//! `&&` or `||` would need only after another is answered may be asked together with it.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use policy::User;
use policy::identity::{ACCOUNT_PREFIX, ACCOUNTS};

/// The most questions of a policy for one binding.
const OF_POLICY: usize = 28;
/// The most questions of the match conditions of a webhook.
const OF_CONDITIONS: usize = 7;
/// The longest texts of a question together, in bytes.
const QUESTION_BYTES: usize = 16 << 10;

/// A question to the authorizers.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct Question {
    /// Namespace and name of the service account that it is about, instead of the caller.
    pub account: Option<(String, String)>,
    /// What is to be allowed.
    pub what: What,
    /// The verb, verbatim.
    pub verb: String,
}

/// What a question is about.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub enum What {
    /// A path that is no resource.
    Path(String),
    /// Objects of a resource.
    Resource(Objects),
}

/// Objects that a question is about. What does not matter is empty.
#[derive(Clone, Debug, Default, Hash, PartialEq, Eq)]
pub struct Objects {
    /// The API group.
    pub group: String,
    /// The resource, plural.
    pub resource: String,
    /// The subresource.
    pub subresource: String,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The field selector as text. One that cannot be parsed counts as none.
    pub field_selector: String,
    /// The label selector as text. One that cannot be parsed counts as none.
    pub label_selector: String,
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Whether it is allowed. No opinion is a no.
    pub is_allowed: bool,
    /// The reasons of the authorizers.
    pub reason: String,
    /// The error of an authorizer. It allows nothing by itself.
    pub error: Option<String>,
}

impl Question {
    /// The user whom it is about.
    pub fn user<'u>(&self, caller: &'u User) -> Cow<'u, User> {
        let Some((namespace, name)) = &self.account else { return Cow::Borrowed(caller) };
        let groups = [ACCOUNTS.to_owned(), format!("{ACCOUNTS}:{namespace}")];
        Cow::Owned(User::new(format!("{ACCOUNT_PREFIX}{namespace}:{name}"), groups))
    }

    fn bytes(&self) -> usize {
        let account = self.account.iter().flat_map(|(namespace, name)| [namespace, name]);
        let what = match &self.what {
            What::Path(path) => vec![path],
            What::Resource(objects) => {
                let Objects { group, resource, subresource, namespace, name, .. } = objects;
                let selectors = [&objects.field_selector, &objects.label_selector];
                [group, resource, subresource, namespace, name].into_iter().chain(selectors).collect()
            }
        };
        account.chain(what).map(String::len).fold(self.verb.len(), usize::saturating_add)
    }
}

/// The questions of the expressions of one policy for a binding, or of one webhook, about one write, with their answers.
#[derive(Debug)]
pub struct Checks {
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    answers: HashMap<Question, Answer>,
    open: Vec<Question>,
}

impl Checks {
    /// For a policy and one of its bindings.
    pub fn of_policy() -> Self {
        Self { most: OF_POLICY, state: Mutex::default() }
    }

    /// For the match conditions of a webhook.
    pub fn of_conditions() -> Self {
        Self { most: OF_CONDITIONS, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often expressions may be evaluated at most: once for each question, and once with all answers.
    pub fn rounds(&self) -> usize {
        self.most.saturating_add(1)
    }

    /// The answer to a question. A new question is noted.
    ///
    /// # Errors
    /// There is no answer yet, or there are too many questions, or it is too long.
    pub fn answer(&self, question: &Question) -> Result<Answer, String> {
        let mut state = self.state();
        if let Some(answer) = state.answers.get(question) {
            return Ok(answer.clone());
        }
        if !state.open.contains(question) {
            if state.answers.len().saturating_add(state.open.len()) >= self.most {
                return Err(format!(
                    "actual cost limit exceeded: more than {} authorization checks",
                    self.most
                ));
            }
            if question.bytes() > QUESTION_BYTES {
                return Err(format!("an authorization check is about more than {QUESTION_BYTES} bytes"));
            }
            state.open.push(question.clone());
        }
        Err("the authorizers have not answered yet".to_owned())
    }

    /// Takes the questions that have no answer.
    pub fn take_open(&self) -> Vec<Question> {
        std::mem::take(&mut self.state().open)
    }

    /// Adds an answer.
    pub fn add(&self, question: Question, answer: Answer) {
        self.state().answers.insert(question, answer);
    }
}
