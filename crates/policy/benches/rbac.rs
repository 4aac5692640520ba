//! What RBAC decisions and changes cost, by the number of bindings: both must not depend on it.
//!
//! Binding i gives user i the role i over API group i; half of the requests ask for another group.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use portcullis_policy::objects::rbac::{Binding, OwnedMetadata, PolicyRule, Role, RoleRef, Subject};
use portcullis_policy::rbac::RbacIndex;
use portcullis_policy::{Attributes, Authorizer, ResourceRequest, User};

const SIZES: [usize; 4] = [100, 1_000, 10_000, 100_000];

fn metadata(name: String) -> OwnedMetadata {
    OwnedMetadata { name, ..OwnedMetadata::default() }
}

fn role(i: usize) -> Role {
    let rule = PolicyRule {
        verbs: ["get", "list", "watch"].map(str::to_owned).to_vec(),
        api_groups: vec![format!("group-{i}.example.com")],
        resources: vec!["widgets".to_owned()],
        ..PolicyRule::default()
    };
    Role { metadata: metadata(format!("role-{i}")), rules: vec![rule], aggregation_rule: None }
}

fn binding(i: usize) -> Binding {
    let name = format!("role-{i}");
    let role_ref = RoleRef { kind: "ClusterRole".to_owned(), name, ..RoleRef::default() };
    let subject = Subject { kind: "User".to_owned(), name: format!("user-{i}"), ..Subject::default() };
    Binding { metadata: metadata(format!("binding-{i}")), subjects: vec![subject], role_ref }
}

fn index(bindings: usize) -> RbacIndex {
    let mut index = RbacIndex::default();
    for i in 0..bindings {
        index.apply_cluster_role(role(i));
        index.apply_cluster_role_binding(binding(i));
    }
    index
}

fn decisions(c: &mut Criterion) {
    let mut group = c.benchmark_group("rbac/decide");
    group.throughput(Throughput::Elements(1));
    for bindings in SIZES {
        let index = index(bindings);
        let requests: Vec<(User, String)> = (0..bindings.max(1_000))
            // A stride without a pattern, so that no request finds its data in a near cache line.
            .map(|i| (i * 7_919) % bindings)
            .map(|i| {
                let asked = if i % 2 == 0 { i } else { i + 1 };
                (
                    User::new(format!("user-{i}"), ["system:authenticated"]),
                    format!("group-{asked}.example.com"),
                )
            })
            .collect();
        let mut next = requests.iter().cycle();
        group.bench_function(BenchmarkId::from_parameter(bindings), |b| {
            b.iter(|| {
                let Some((user, group)) = next.next() else { return };
                let request = ResourceRequest { group, resource: "widgets", ..ResourceRequest::default() };
                let attributes = Attributes { user, verb: "get", path: "", resource: Some(request) };
                black_box(index.authorize(black_box(&attributes)));
            });
        });
    }
    group.finish();
}

fn updates(c: &mut Criterion) {
    let mut group = c.benchmark_group("rbac/replace-binding");
    for bindings in SIZES {
        let mut index = index(bindings);
        let mut next = 0;
        group.bench_function(BenchmarkId::from_parameter(bindings), |b| {
            b.iter_batched(
                || {
                    next = (next + 7_919) % bindings;
                    binding(next)
                },
                |binding| index.apply_cluster_role_binding(binding),
                criterion::BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

criterion_group!(rbac, decisions, updates);
criterion_main!(rbac);
