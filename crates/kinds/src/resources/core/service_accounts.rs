//! Service accounts, the identities of pods.

use crate::Map;
use crate::fields::Members;
use crate::resource::{Action, Resource, Subresource};
use crate::resources::cells::{AGE, NAME, age, name};
use crate::schema;
use crate::table::Row;

/// The row of ServiceAccounts.
pub static SERVICE_ACCOUNTS: Resource = Resource {
    kind: "ServiceAccount",
    plural: "serviceaccounts",
    short_names: &["sa"],
    subresources: &[Subresource {
        group: Some("authentication.k8s.io"),
        version: Some("v1"),
        ..Subresource::action("token", "TokenRequest", Action::RequestToken)
    }],
    schema: &schema::core::small::SERVICE_ACCOUNT,
    deletes_to_object: true,
    prepare_create: keep_names,
    prepare_update: |account, _| keep_names(account),
    columns: &[NAME, AGE],
    row: |account, now| Row::of(vec![name(account), age(account, now)]),
    ..Resource::USUAL
};

/// Keeps only the names of secret references.
fn keep_names(account: &mut Map) {
    for secret in account.objects_mut("secrets") {
        secret.retain(|member, _| member == "name");
    }
}
