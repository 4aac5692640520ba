//! Binds a pod to a node (AP-120).

use kinds::Map;
use kinds::resources::pods::{self, BindError, PODS};

use super::admission::Operation;
use super::meta::{self, now};
use super::options::WriteOptions;
use super::request_scope::RequestScope;
use super::target::Target;
use super::update;
use crate::http::status::Status;

/// Binds the pod that a binding names, or the one of the path.
///
/// # Errors
/// It is not admitted, names no node or another pod, or the pod is not there or is bound already.
pub(crate) async fn bind(
    scope: &RequestScope<'_>,
    mut binding: Map,
    options: &WriteOptions,
) -> Result<(), Status> {
    let target = scope.target;
    scope.admit(Operation::Create, target.name, options, Some(&mut binding), None).await?;
    let name = match target.name {
        "" => meta::text(&binding, "name").to_owned(),
        name => name.to_owned(),
    };
    pods::check_binding(&binding, &name).map_err(|error| refusal(&name, error))?;
    scope.validate(Operation::Create, target.name, options, Some(&mut binding), None).await?;
    let target = Target { resource: &PODS, subresource: None, name: &name, ..target };
    write(&RequestScope { target, ..*scope }, &binding, options.is_dry_run).await
}

async fn write(scope: &RequestScope<'_>, binding: &Map, is_dry_run: bool) -> Result<(), Status> {
    let name = scope.target.name;
    let uid = Some(meta::text(binding, "uid")).filter(|uid| !uid.is_empty());
    let version = Some(meta::text(binding, "resourceVersion")).filter(|version| !version.is_empty());
    update::change(scope, is_dry_run, |pod| {
        for (field, asked) in [("uid", uid), ("resourceVersion", version)] {
            let found = meta::text(pod, field);
            if let Some(asked) = asked.filter(|asked| *asked != found) {
                let why = format!(
                    "Precondition failed: {field} in precondition: {asked}, {field} in object meta: {found}"
                );
                return Err(Status::conflict("", PODS.plural, name, &why));
            }
        }
        pods::bind(pod, binding, now()).map_err(|error| refusal(name, error))
    })
    .await?;
    Ok(())
}

fn refusal(name: &str, error: BindError) -> Status {
    match error {
        BindError::Name(why) => Status::bad_request(why),
        BindError::Target(why) => Status::unknown(why),
        BindError::Conflict(why) => Status::conflict("", "pods/binding", name, &why),
    }
}
