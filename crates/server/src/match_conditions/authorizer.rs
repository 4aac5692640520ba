//! The variable `authorizer` of expressions about writes: `authorizer.group('apps').resource('deployments').check('get')` and
//! what else Kubernetes has. `authorizer.requestResource` is the resource of the write itself.

use std::fmt;
use std::sync::Arc;

use kube_cel::cel::extractors::This;
use kube_cel::cel::objects::Opaque;
use kube_cel::cel::{Context, ExecutionError, ResolveResult, Value};
use portcullis_apimachinery::names::{is_dns_label, is_dns_subdomain};
use serde_json::{Map, Value as Json};

use super::checks::{Answer, Checks, Objects, Question, What};
use super::review_values::foreign_text;

/// The names of the variables. The second is one name in evaluations.
pub(super) const AUTHORIZER: &str = "authorizer";
pub(super) const REQUEST_RESOURCE: &str = "authorizer.requestResource";
/// The field by which expressions read the second.
pub(super) const REQUEST_RESOURCE_FIELD: &str = "requestResource";

/// A value that leads to a decision. It has no fields, and equals nothing that is put together anew.
#[derive(Clone)]
struct Asking {
    checks: Arc<Checks>,
    account: Option<(String, String)>,
    step: Step,
}

#[derive(Clone)]
enum Step {
    Authorizer,
    Path(String),
    Group(String),
    Resource(Objects),
    Decision(Answer),
}

/// Only the value itself is equal to it.
impl PartialEq for Asking {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Asking {}

impl fmt::Debug for Asking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.runtime_type_name())
    }
}

impl Opaque for Asking {
    fn runtime_type_name(&self) -> &str {
        match self.step {
            Step::Authorizer => "kubernetes.authorization.Authorizer",
            Step::Path(_) => "kubernetes.authorization.PathCheck",
            Step::Group(_) => "kubernetes.authorization.GroupCheck",
            Step::Resource(_) => "kubernetes.authorization.ResourceCheck",
            Step::Decision(_) => "kubernetes.authorization.Decision",
        }
    }
}

/// The variables for a write with this request.
pub(super) fn variables(checks: &Arc<Checks>, request: &Map<String, Json>) -> [(&'static str, Value); 2] {
    let value = |step| Value::Opaque(Arc::new(Asking { checks: Arc::clone(checks), account: None, step }));
    [
        (AUTHORIZER, value(Step::Authorizer)),
        (REQUEST_RESOURCE, value(Step::Resource(request_resource(request)))),
    ]
}

fn request_resource(request: &Map<String, Json>) -> Objects {
    let text = |member: Option<&Json>| member.and_then(Json::as_str).unwrap_or_default().to_owned();
    let of_resource = |member: &str| text(request.get("requestResource").and_then(|found| found.get(member)));
    Objects {
        group: of_resource("group"),
        resource: of_resource("resource"),
        subresource: text(request.get("requestSubResource")),
        namespace: text(request.get("namespace")),
        name: text(request.get("name")),
        ..Objects::default()
    }
}

impl Step {
    fn authorizer(&self) -> Option<()> {
        matches!(self, Self::Authorizer).then_some(())
    }

    fn group(&self) -> Option<&String> {
        if let Self::Group(group) = self { Some(group) } else { None }
    }

    fn objects(&self) -> Option<&Objects> {
        if let Self::Resource(objects) = self { Some(objects) } else { None }
    }

    fn decision(&self) -> Option<&Answer> {
        if let Self::Decision(answer) = self { Some(answer) } else { None }
    }

    fn what(&self) -> Option<What> {
        match self {
            Self::Path(path) => Some(What::Path(path.clone())),
            Self::Resource(objects) => Some(What::Resource(objects.clone())),
            Self::Authorizer | Self::Group(_) | Self::Decision(_) => None,
        }
    }
}

/// Declares the functions.
pub(super) fn declare(context: &mut Context<'_>) {
    context.add_function("path", |This(this): This<Value>, path: Arc<String>| {
        let (asking, ()) = taken(&this, Step::authorizer)?;
        not_blank("path", &path)?;
        asking.next(Step::Path(path.to_string()))
    });
    context.add_function("group", |This(this): This<Value>, group: Arc<String>| {
        let (asking, ()) = taken(&this, Step::authorizer)?;
        asking.next(Step::Group(group.to_string()))
    });
    context.add_function(
        "serviceAccount",
        |This(this): This<Value>, namespace: Arc<String>, name: Arc<String>| {
            let (asking, ()) = taken(&this, Step::authorizer)?;
            let invalid = |what: &str| {
                ExecutionError::function_error("serviceAccount", format!("Invalid service account {what}"))
            };
            if !is_dns_subdomain(&name) {
                return Err(invalid("name"));
            }
            if !is_dns_label(&namespace) {
                return Err(invalid("namespace"));
            }
            let account = Some((namespace.to_string(), name.to_string()));
            Asking { account, ..asking.clone() }.next(Step::Authorizer)
        },
    );
    context.add_function("resource", |This(this): This<Value>, resource: Arc<String>| {
        let (asking, group) = taken(&this, Step::group)?;
        not_blank("resource", &resource)?;
        let (group, resource) = (group.clone(), resource.to_string());
        asking.next(Step::Resource(Objects { group, resource, ..Objects::default() }))
    });
    narrow(context, "subresource", |objects| &mut objects.subresource);
    narrow(context, "namespace", |objects| &mut objects.namespace);
    narrow(context, "name", |objects| &mut objects.name);
    narrow(context, "fieldSelector", |objects| &mut objects.field_selector);
    narrow(context, "labelSelector", |objects| &mut objects.label_selector);
    context.add_function("check", |This(this): This<Value>, verb: Arc<String>| {
        let (asking, what) = taken(&this, Step::what)?;
        let question = Question { account: asking.account.clone(), what, verb: verb.to_string() };
        let answer = asking.checks.answer(&question);
        asking.next(Step::Decision(answer.map_err(|why| ExecutionError::function_error("check", why))?))
    });
    tell(context, "allowed", |answer| Value::Bool(answer.is_allowed));
    tell(context, "reason", |answer| foreign_text(&answer.reason));
    tell(context, "errored", |answer| Value::Bool(answer.error.is_some()));
    tell(context, "error", |answer| foreign_text(answer.error.as_deref().unwrap_or_default()));
}

/// Declares a function that narrows what a question is about.
fn narrow(context: &mut Context<'_>, name: &str, part: fn(&mut Objects) -> &mut String) {
    context.add_function(name, move |This(this): This<Value>, value: Arc<String>| {
        let (asking, objects) = taken(&this, Step::objects)?;
        let mut objects = objects.clone();
        *part(&mut objects) = value.to_string();
        asking.next(Step::Resource(objects))
    });
}

/// Declares a function of a decision.
fn tell(context: &mut Context<'_>, name: &str, of: fn(&Answer) -> Value) {
    context.add_function(name, move |This(this): This<Value>| -> ResolveResult {
        taken(&this, Step::decision).map(|(_, answer)| of(answer))
    });
}

/// A value that leads to a decision, and what a function needs of it.
fn taken<'v, T>(
    value: &'v Value,
    part: fn(&'v Step) -> Option<T>,
) -> Result<(&'v Asking, T), ExecutionError> {
    let asking = match value {
        Value::Opaque(opaque) => opaque.downcast_ref::<Asking>(),
        _ => None,
    };
    let found = asking.and_then(|asking| Some((asking, part(&asking.step)?)));
    found.ok_or(ExecutionError::NoSuchOverload)
}

fn not_blank(name: &str, text: &str) -> Result<(), ExecutionError> {
    if text.trim().is_empty() {
        return Err(ExecutionError::function_error(name, format!("{name} must not be empty")));
    }
    Ok(())
}

impl Asking {
    fn next(&self, step: Step) -> ResolveResult {
        Ok(Value::Opaque(Arc::new(Self { step, ..self.clone() })))
    }
}
