//! What an answer of `who-can` costs over many bindings, with the state loaded (AU-153).
//!
//! Binding i gives user i the role i. A tenth of the roles grant what is asked, or all of them do.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use portcullis_policy::audit::who_can::{Inventory, WhoCan};
use portcullis_policy::engine::{Builder, Engine, EngineConfig};
use portcullis_policy::objects::Object;
use portcullis_policy::objects::rbac::{Binding, OwnedMetadata, PolicyRule, Role, RoleRef, Subject};
use portcullis_policy::{Attributes, Mode, ResourceRequest, User};

const BINDINGS: usize = 10_000;

fn metadata(name: String) -> OwnedMetadata {
    OwnedMetadata { name, ..OwnedMetadata::default() }
}

/// Every so many roles grant the request.
fn state(every: usize) -> Option<(Engine, Inventory)> {
    let config = EngineConfig { modes: vec![Mode::Node, Mode::Rbac], ..EngineConfig::default() };
    let (mut builder, mut inventory) = (Builder::new(config).ok()?, Inventory::default());
    for i in 0..BINDINGS {
        let resource = if i % every == 0 { "secrets" } else { "pods" };
        let rule = PolicyRule {
            verbs: ["get", "list", "watch"].map(str::to_owned).to_vec(),
            api_groups: vec![String::new()],
            resources: vec!["configmaps".to_owned(), resource.to_owned()],
            ..PolicyRule::default()
        };
        let name = format!("role-{i}");
        let role = Role { metadata: metadata(name.clone()), rules: vec![rule], aggregation_rule: None };
        let role_ref = RoleRef { kind: "ClusterRole".to_owned(), name, ..RoleRef::default() };
        let subject = Subject { kind: "User".to_owned(), name: format!("user-{i}"), ..Subject::default() };
        let binding =
            Binding { metadata: metadata(format!("binding-{i}")), subjects: vec![subject], role_ref };
        for object in [Object::ClusterRole(role), Object::ClusterRoleBinding(binding)] {
            inventory.take(&object);
            builder.take(object).ok()?;
        }
    }
    Some((builder.finish(), inventory))
}

fn answers(c: &mut Criterion) {
    let mut group = c.benchmark_group("who-can/10000-bindings");
    let user = User::default();
    let request =
        ResourceRequest { namespace: "shop", resource: "secrets", name: "db", ..ResourceRequest::default() };
    let attributes = Attributes { user: &user, verb: "get", path: "", resource: Some(request) };
    for (name, every) in [("a-tenth-can", 10), ("all-can", 1)] {
        let Some((engine, inventory)) = state(every) else { return };
        let who_can = WhoCan::new(engine.chain(), engine.gates(), &inventory);
        group.bench_function(name, |b| b.iter(|| black_box(who_can.ask(black_box(&attributes), false))));
    }
    group.finish();
}

criterion_group!(who_can, answers);
criterion_main!(who_can);
