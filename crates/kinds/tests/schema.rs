//! The field tables equal those of Kubernetes 1.36.

#![allow(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test that cannot be set up must stop"
)]

use std::collections::BTreeMap;

use portcullis_kinds::schema::{self, Field, Merge, REST, Shape, Type};
use portcullis_testkit::recorded;
use serde_json::Value;

/// The package of definitions of custom kinds, which are read and written as JSON only.
const NO_PROTOBUF: &str = "apiextensions.k8s.io/v1";

/// Packages and the names that the recorded list of fields has for them.
const PACKAGES: &[(&str, &str)] = &[
    ("authentication/v1", "authentication.k8s.io/v1"),
    ("authorization/v1", "authorization.k8s.io/v1"),
    ("authorization/v1beta1", "authorization.k8s.io/v1"),
    ("certificates/v1", "certificates.k8s.io/v1"),
    ("coordination/v1", "coordination.k8s.io/v1"),
    ("core/v1", "core/v1"),
    ("events/v1", "events.k8s.io/v1"),
    ("meta/v1", "meta/v1"),
    ("node/v1", "node.k8s.io/v1"),
    ("policy/v1", "policy/v1"),
    ("resource/v1", "resource.k8s.io/v1"),
    ("storage/v1", "storage.k8s.io/v1"),
];

/// The numbers of groups that the recorded list lacks, from their `generated.proto`: a type on each line, with its
/// fields. A field of an embedded message has its number there.
const NUMBERS: &str = include_str!("numbers.txt");

/// The types of that list, by package and name.
fn listed() -> BTreeMap<(&'static str, &'static str), Vec<(&'static str, u32)>> {
    let field = |field: &'static str| {
        let (name, number) = field.split_once('=').unwrap();
        (name, number.parse().unwrap())
    };
    let line = |line: &'static str| {
        let (ty, fields) = line.split_once(": ").unwrap();
        (ty.split_once(' ').unwrap(), fields.split(' ').map(field).collect())
    };
    NUMBERS.lines().map(line).collect()
}

/// Every type that a kind reaches, by package and name.
///
/// # Panics
/// When a type lies within itself: readers rely on an end. Only the schemas of custom kinds do so.
fn types() -> BTreeMap<(&'static str, &'static str), &'static Type> {
    fn walk(
        ty: &'static Type,
        above: &mut Vec<&'static str>,
        found: &mut BTreeMap<(&'static str, &'static str), &'static Type>,
    ) {
        let is_within_itself = above.contains(&ty.name);
        assert!(!is_within_itself || ty.name == "JSONSchemaProps", "{} lies within itself", ty.name);
        if found.insert((ty.package, ty.name), ty).is_some() {
            return;
        }
        above.push(ty.name);
        for field in ty.fields {
            let mut shape = field.shape;
            while let Shape::List(inner) | Shape::Map(inner) = shape {
                shape = *inner;
            }
            if let Shape::Object(inner) = shape {
                walk(inner, above, found);
            }
        }
        above.pop();
    }
    let mut found = BTreeMap::new();
    let common = ["CreateOptions", "DeleteOptions", "PatchOptions", "Status", "UpdateOptions"];
    let common = common.map(|kind| schema::find("v1", kind).unwrap());
    for ty in schema::kinds().chain(common) {
        walk(ty, &mut Vec::new(), &mut found);
    }
    found
}

/// The type of a field as protobuf's language has it, without packages.
fn protobuf_type(shape: Shape) -> String {
    match shape {
        Shape::Any => "any".to_owned(),
        Shape::Bool => "bool".to_owned(),
        Shape::Bytes => "bytes".to_owned(),
        Shape::Int32 => "int32".to_owned(),
        Shape::Int64 => "int64".to_owned(),
        Shape::IntOrString => "IntOrString".to_owned(),
        Shape::List(shape) => format!("repeated {}", protobuf_type(*shape)),
        Shape::Map(Shape::List(Shape::Text)) => "map<string, ExtraValue>".to_owned(),
        Shape::Map(shape) => format!("map<string, {}>", protobuf_type(*shape)),
        Shape::MicroTime => "MicroTime".to_owned(),
        Shape::Object(ty) => ty.name.to_owned(),
        Shape::Quantity => "Quantity".to_owned(),
        Shape::Text => "string".to_owned(),
        Shape::Time => "Time".to_owned(),
    }
}

/// A recorded type in the same form.
fn recorded_type(text: &str) -> String {
    let (before, name) = text.rsplit_once('.').unwrap_or(("", text));
    let before = before.rsplit_once(' ').map_or("", |(before, _)| before);
    let joined = if before.is_empty() { name.to_owned() } else { format!("{before} {name}") };
    joined.replace("RawExtension", "any").replace("FieldsV1", "any")
}

type Numbers = BTreeMap<String, (u64, String)>;

fn recorded_numbers(package: &Value, ty: &str) -> Numbers {
    let fields = package[ty].as_object().unwrap_or_else(|| panic!("{ty} is recorded"));
    let number = |field: &Value| (field[0].as_u64().unwrap(), recorded_type(field[1].as_str().unwrap()));
    // The one name that differs from that in JSON.
    fields.iter().map(|(name, field)| (name.replace("uID", "uid"), number(field))).collect()
}

fn numbers(fields: &[Field], within: &[u32]) -> Numbers {
    let own = fields.iter().filter(|field| field.within == within && field.number > 0);
    own.map(|field| (field.name.to_owned(), (field.number.into(), protobuf_type(field.shape)))).collect()
}

#[test]
fn numbers_and_types_in_protobuf_are_those_of_kubernetes() {
    let recorded: Value = serde_json::from_str(&recorded::text("data/protobuf-fields.json")).unwrap();
    let mut compared = 0;
    for ((package, name), ty) in types() {
        let Some((_, long)) = PACKAGES.iter().find(|(short, _)| *short == package) else { continue };
        let package = &recorded[*long];
        let mut expected = recorded_numbers(package, name);
        if ty.package == "authorization/v1beta1" && name == "SubjectAccessReviewSpec" {
            let groups = expected.remove("groups").unwrap();
            expected.insert("group".to_owned(), groups);
        }
        // What lies in an embedded message is written in the type around it.
        let embedded: Vec<&[u32]> =
            ty.fields.iter().map(|field| field.within).filter(|within| !within.is_empty()).collect();
        for within in embedded {
            let Some(inlined) = expected.iter().find(|(_, (number, _))| *number == u64::from(within[0]))
            else {
                continue;
            };
            let (inlined, (_, inner)) = (inlined.0.clone(), inlined.1.clone());
            assert_eq!(numbers(ty.fields, within), recorded_numbers(package, &inner), "{name}: {inlined}");
            expected.remove(&inlined);
        }
        assert_eq!(numbers(ty.fields, &[]), expected, "{name}");
        compared += 1;
    }
    assert!(compared > 300, "{compared}");
}

#[test]
fn numbers_of_the_other_groups_are_those_of_kubernetes() {
    let types = types();
    let listed = listed();
    for (ty @ (_, name), expected) in &listed {
        let mut found: Vec<(&str, u32)> = types[ty]
            .fields
            .iter()
            .filter(|field| field.number > 0)
            .map(|field| (field.name, field.number))
            .collect();
        let mut expected = expected.clone();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "{name}");
    }
    let known = |package: &str| PACKAGES.iter().any(|(short, _)| *short == package);
    for (package, name) in types.keys() {
        let is_listed = listed.contains_key(&(*package, *name));
        assert!(
            known(package) || is_listed || name.starts_with("Machine") || *package == NO_PROTOBUF,
            "{package} {name} is compared with nothing"
        );
    }
}

#[test]
fn no_type_has_a_field_or_number_twice() {
    for ((package, name), ty) in types() {
        for (index, field) in ty.fields.iter().enumerate() {
            for other in &ty.fields[..index] {
                assert_ne!(field.name, other.name, "{package} {name}");
                let is_same = (field.within, field.number) == (other.within, other.number);
                assert!(field.number == 0 || !is_same, "{package} {name}: {} and {}", field.name, other.name);
            }
        }
        let rests = ty.fields.iter().filter(|field| field.name == REST).count();
        assert_eq!(rests, usize::from(ty.rest().is_some()), "{package} {name}: the rest comes last");
    }
}

#[test]
fn a_kind_is_found_by_what_its_documents_say() {
    for ty in schema::kinds() {
        assert!(std::ptr::eq(schema::find(ty.package, ty.name).unwrap(), ty), "{} {}", ty.package, ty.name);
    }
    for (api_version, kind, package) in [
        ("v1", "Pod", "core/v1"),
        ("v1", "Event", "core/v1"),
        ("events.k8s.io/v1", "Event", "events/v1"),
        ("rbac.authorization.k8s.io/v1", "Role", "rbac/v1"),
        ("authorization.k8s.io/v1beta1", "SubjectAccessReview", "authorization/v1beta1"),
        ("authorization.k8s.io/v1beta1", "SelfSubjectAccessReview", "authorization/v1"),
        ("policy/v1beta1", "Eviction", "policy/v1"),
        ("machine.openshift.io/v1beta1", "Machine", "machine.openshift.io/v1beta1"),
        ("cluster.x-k8s.io/v1beta2", "Machine", "cluster.x-k8s.io/v1beta2"),
        ("apps/v1", "DeleteOptions", "meta/v1"),
        ("v1", "Status", "meta/v1"),
    ] {
        let ty = schema::find(api_version, kind).unwrap();
        assert_eq!((ty.name, ty.package), (kind, package), "{api_version}");
    }
    for (api_version, kind) in [
        ("v2", "Pod"),
        ("", "Pod"),
        ("v1", "pod"),
        ("rbac.k8s.io/v1", "Role"),
        ("v1", "Role"),
        ("a/b/c", "Pod"),
    ] {
        assert!(schema::find(api_version, kind).is_none(), "{api_version} {kind}");
    }
}

#[test]
fn lists_merge_by_the_keys_of_kubernetes_ap_63() {
    let types = types();
    let merge = |package: &'static str, ty: &'static str, field: &str| {
        types[&(package, ty)].field(field).unwrap_or_else(|| panic!("{ty} {field}")).merge
    };
    for (ty, field, key) in [
        ("PodSpec", "containers", "name"),
        ("PodSpec", "initContainers", "name"),
        ("PodSpec", "ephemeralContainers", "name"),
        ("Container", "env", "name"),
        ("PodSpec", "imagePullSecrets", "name"),
        ("PodSpec", "schedulingGates", "name"),
        ("Container", "ports", "containerPort"),
        ("Container", "volumeMounts", "mountPath"),
        ("Container", "volumeDevices", "devicePath"),
        ("PodSpec", "topologySpreadConstraints", "topologyKey"),
        ("PodSpec", "hostAliases", "ip"),
        ("PodStatus", "podIPs", "ip"),
        ("PodStatus", "hostIPs", "ip"),
        ("PodStatus", "conditions", "type"),
        ("NodeStatus", "conditions", "type"),
        ("NodeStatus", "addresses", "type"),
        ("ServiceAccount", "secrets", "name"),
        ("ServiceSpec", "ports", "port"),
    ] {
        assert_eq!(merge("core/v1", ty, field), Merge::ByKey(key), "{ty} {field}");
    }
    for field in ["volumes", "resourceClaims"] {
        assert_eq!(merge("core/v1", "PodSpec", field), Merge::ByKeyRetaining("name"), "{field}");
    }
    assert_eq!(merge("meta/v1", "ObjectMeta", "ownerReferences"), Merge::ByKey("uid"));
    assert_eq!(merge("resource/v1", "ResourceClaimStatus", "reservedFor"), Merge::ByKey("uid"));
    assert_eq!(merge("storage/v1", "CSINodeSpec", "drivers"), Merge::ByKey("name"));
    assert_eq!(merge("meta/v1", "ObjectMeta", "finalizers"), Merge::Set);
    assert_eq!(merge("core/v1", "NodeSpec", "podCIDRs"), Merge::Set);
    for (package, ty, field) in [
        ("core/v1", "PodSpec", "tolerations"),
        ("core/v1", "NodeSpec", "taints"),
        ("core/v1", "PodStatus", "containerStatuses"),
        ("core/v1", "NodeStatus", "images"),
        ("core/v1", "ServiceAccount", "imagePullSecrets"),
        ("rbac/v1", "Role", "rules"),
        ("rbac/v1", "RoleBinding", "subjects"),
        ("core/v1", "Container", "args"),
        ("core/v1", "Container", "command"),
    ] {
        assert_eq!(merge(package, ty, field), Merge::Default, "{ty} {field}");
    }
}
