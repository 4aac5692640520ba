//! Every approved request satisfies every rule, by a second implementation of the rules (NB-160).

use portcullis_policy::approval::machine::{
    Address, AddressKind, Grants, Key, Limits, Machine, MachineKind, Node, Outcome, Request,
};
use proptest::prelude::*;

use super::support::*;

const HOUR: i64 = 3600;

fn one<T: Clone + std::fmt::Debug + 'static>(items: &[T]) -> impl Strategy<Value = T> + use<T> {
    // Mostly the first, which is the good one.
    let (first, all) = (items[0].clone(), items.to_vec());
    prop_oneof![6 => Just(first), 1 => prop::sample::select(all)]
}

prop_compose! {
    fn random_machine()(
        kind in one(&MachineKind::ALL),
        name in one(&["worker-0", "WORKER-0.", "worker-1", ""]),
        extra in one(&[None, Some("worker-1"), Some("worker-0")]),
        created in one(&[Some(0), Some(-2 * HOUR), Some(120), Some(200), None]),
        node in one(&[None, Some("worker-0"), Some("worker-1")]),
        deleting in one(&[false, true]),
        phase in one(&["Running", "Failed"]),
        cluster in one(&["mine", "theirs"]),
        ip in one(&["10.0.0.10", "10.0.0.11", "::ffff:10.0.0.10", "fd00::1", "x"]),
        id in 0_u32..1000,
    ) -> Machine {
        let mut machine = machine(kind, &worker());
        machine.addresses = [Some((AddressKind::InternalDns, name)), extra.map(|e| (AddressKind::Hostname, e)),
            Some((AddressKind::InternalIp, ip))]
            .into_iter()
            .flatten()
            .map(|(kind, value)| Address { kind, value: value.to_owned() })
            .collect();
        machine.created = created.map(at);
        machine.node_ref = node.map(str::to_owned);
        machine.is_deleting = deleting;
        machine.phase = phase.to_owned();
        machine.uid = id.to_string();
        machine.provider_id = Some(format!("cloud:///{}", id % 3));
        if kind != MachineKind::OpenShiftV1Beta1 {
            machine.cluster_name = cluster.to_owned();
        }
        machine
    }
}

prop_compose! {
    fn random_request(is_client: bool)(
        name in one(&["worker-0", "worker-1", "Worker-0", ""]),
        prefix in one(&["system:node:", "system:nodes:", ""]),
        user in one(&[BOOTSTRAPPER, "system:node:worker-0", "admin"]),
        organizations in one(&[&["system:nodes"][..], &["system:nodes", "system:masters"], &[]]),
        groups in one(&[0, 1, 2, 3, 4]),
        usages in prop::sample::subsequence(vec!["digital signature", "client auth", "key encipherment", "server auth"], 0..=4),
        good_usages in one(&[true, false]),
        dns in one(&[&["worker-0"][..], &["worker-0", "worker-1"], &[], &["kubernetes.default"], &["*.a"]]),
        ip in one(&[&["10.0.0.10"][..], &["10.0.0.10", "fd00::1"], &[], &["127.0.0.1"], &["10.0.0.11"]]),
        email in one(&[&[][..], &["a@b"]]),
        key in one(&[Key::P256, Key::Rsa { bits: 2048 }, Key::Rsa { bits: 1024 }]),
        oid in one(&["2.5.29.15", "2.5.29.19", "1.2.3"]),
        is_ca in one(&[false, true]),
        trailing in one(&[false, true]),
        created in one(&[Some(120), Some(-10), Some(-9), Some(2 * HOUR - 1), Some(2 * HOUR), None]),
        has_client_sans in one(&[false, true]),
    ) -> Request {
        let mut request = if is_client { client_request() } else { serving_request() };
        let own = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}{name}") };
        request.username = match (is_client, user) {
            (false, BOOTSTRAPPER) => "system:node:worker-0".to_owned(),
            _ => user.to_owned(),
        };
        match groups {
            1 => { request.groups.pop(); }
            2 => request.groups.push("system:masters".to_owned()),
            3 => request.groups = strings(&["system:authenticated", "system:serviceaccounts:openshift-machine-config-operator"]),
            4 => request.groups = strings(&["system:nodes", "system:authenticated", "more"]),
            _ => {}
        }
        if !good_usages {
            request.usages = strings(&usages);
        }
        request.created = created.map(at);
        let content = content(&mut request);
        content.common_name = own;
        content.organizations = strings(organizations);
        if !is_client || has_client_sans {
            content.dns = strings(dns);
            content.ip = ip.iter().map(|ip| ip.parse().unwrap()).collect();
        }
        content.email = strings(email);
        content.key = key;
        content.extensions = vec![extension(oid)];
        content.extensions[0].is_ca = oid == "2.5.29.19" && is_ca;
        if !is_client {
            content.extensions.push(extension("2.5.29.17"));
        }
        content.has_trailing_data = trailing;
        request
    }
}

/// The rules of both paths on the request by itself, read once more.
fn is_well_formed(request: &Request) -> bool {
    let content = request.content.as_ref().unwrap();
    let key = match content.key {
        Key::Rsa { bits } => bits > 2047,
        _ => true,
    };
    let extensions = content.extensions.iter().all(|e| match &*e.oid {
        "2.5.29.19" => !e.is_ca,
        "2.5.29.17" => request.signer_name == SERVING,
        oid => oid == "2.5.29.15",
    });
    key && extensions
        && !content.has_trailing_data
        && content.email.is_empty()
        && content.organizations.join(",") == "system:nodes"
}

fn usages_of(request: &Request, purpose: &str, other: &str) -> bool {
    let has = |usage: &str| request.usages.iter().any(|have| have == usage);
    has("digital signature") && has(purpose) && !has(other)
}

fn owned(machine: &Machine) -> bool {
    machine.created.is_some()
        && (machine.kind == MachineKind::OpenShiftV1Beta1 || machine.cluster_name == "mine")
}

fn client_rules_hold(world: &World, request: &Request) -> bool {
    let content = request.content.as_ref().unwrap();
    let Some(name) = content.common_name.strip_prefix("system:node:") else { return false };
    let mut groups = request.groups.clone();
    groups.sort();
    let token = [
        "system:authenticated",
        "system:serviceaccounts",
        "system:serviceaccounts:openshift-machine-config-operator",
    ];
    let groups_hold = groups == token || world.has_bootstrap_ca && groups == [token[0], token[2]];
    let machines: Vec<_> = world
        .machines
        .as_ref()
        .unwrap()
        .iter()
        .filter(|machine| {
            owned(machine)
                && machine.addresses.iter().any(|a| {
                    a.kind == AddressKind::InternalDns && a.value.trim_end_matches('.').to_lowercase() == name
                })
        })
        .collect();
    let is_one = match machines.as_slice() {
        [_] => true,
        [a, b] => a.uid == b.uid || a.kind.group() != b.kind.group() && a.provider_id == b.provider_id,
        _ => false,
    };
    let asked = request.created.map(|time| time.seconds);
    let each = machines.iter().all(|machine| {
        let (Some(asked), Some(created)) = (asked, machine.created) else { return false };
        machine.node_ref.is_none()
            && !machine.is_deleting
            && machine.phase != "Failed"
            && asked - created.seconds > -10
            && asked - created.seconds < 2 * HOUR
    });
    is_well_formed(request)
        && content.dns.is_empty()
        && content.ip.is_empty()
        && usages_of(request, "client auth", "server auth")
        && request.username == BOOTSTRAPPER
        && groups_hold
        && matches!(name, "worker-0" | "worker-1")
        && world.node == Ok(None)
        && is_one
        && each
}

fn serving_rules_hold(world: &World, request: &Request) -> bool {
    let content = request.content.as_ref().unwrap();
    let Some(name) = request.username.strip_prefix("system:node:") else { return false };
    let has_group = |group: &str| request.groups.iter().any(|have| have == group);
    let forbidden = |name: &String| name.contains('*') || name.starts_with("kubernetes");
    let machines: Vec<_> = world
        .machines
        .as_ref()
        .unwrap()
        .iter()
        .filter(|machine| owned(machine) && machine.node_ref.as_deref() == Some(name))
        .collect();
    let is_one = match machines.as_slice() {
        [_] => true,
        [a, b] => a.uid == b.uid || a.kind.group() != b.kind.group() && a.provider_id == b.provider_id,
        _ => false,
    };
    let has_all = |machine: &&Machine| {
        let values = |ip: bool| {
            let wanted = move |a: &&Address| (a.kind == AddressKind::InternalIp) == ip;
            machine.addresses.iter().filter(wanted).map(|a| a.value.trim_end_matches('.').to_lowercase())
        };
        content.dns.iter().all(|dns| values(false).any(|value| value == *dns))
            && content
                .ip
                .iter()
                .all(|ip| values(true).any(|value| value.trim_start_matches("::ffff:") == ip.to_string()))
    };
    is_well_formed(request)
        && usages_of(request, "server auth", "client auth")
        && has_group("system:nodes")
        && has_group("system:authenticated")
        && !name.is_empty()
        && content.common_name == request.username
        && !(content.dns.is_empty() && content.ip.is_empty())
        && !content.dns.iter().any(forbidden)
        && !content.ip.iter().any(|ip| ip.to_string() == "127.0.0.1")
        && is_one
        && machines.iter().all(has_all)
}

fn decided(world: &World, request: &Request) -> bool {
    world.decide(request).outcome == Outcome::Approve
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn a_client_request_is_approved_exactly_when_all_rules_hold_nb_160(
        mut machines in prop::collection::vec(random_machine(), 1..3),
        request in random_request(true),
        exists in one(&[false, true]),
        has_bootstrap_ca in any::<bool>(),
    ) {
        // Of one uid there is one Machine, however often it is listed.
        let first = machines[0].clone();
        machines.iter_mut().filter(|machine| machine.uid == first.uid).for_each(|machine| *machine = first.clone());
        let mut world = World::with(machines);
        world.has_bootstrap_ca = has_bootstrap_ca;
        world.now = at(2 * HOUR);
        if exists {
            world.node = Ok(Some(Node { name: "worker-0".to_owned(), ..Node::default() }));
        }
        prop_assert_eq!(decided(&world, &request), client_rules_hold(&world, &request));
    }

    #[test]
    fn a_serving_request_is_approved_exactly_when_all_rules_hold_nb_160(
        mut machines in prop::collection::vec(random_machine(), 1..3),
        request in random_request(false),
        link in any::<bool>(),
    ) {
        if link {
            machines[0].node_ref = Some("worker-0".to_owned());
        }
        let world = World::with(machines);
        prop_assert_eq!(decided(&world, &request), serving_rules_hold(&world, &request));
    }
}

#[test]
fn of_ten_keys_for_one_name_none_is_approved_until_one_is_left_in_whatever_order_nb_75a_nb_155() {
    for round in 0..1000 {
        let mut world = World::of(MachineKind::ALL[round % 3]);
        let mut requests: Vec<_> = (0..10_u8)
            .map(|key| {
                let mut request = client_request();
                request.name = format!("csr-{key}");
                request.uid = format!("uid-{key}");
                content(&mut request).key_hash = [key; 32];
                request
            })
            .collect();
        requests.rotate_left(round % 10);
        if round % 2 == 0 {
            requests.reverse();
        }
        while let Some(request) = requests.pop() {
            world.others = requests.clone();
            assert_eq!(decided(&world, &request), requests.is_empty(), "round {round}");
        }
    }
}

#[test]
fn what_was_approved_is_remembered_after_the_request_is_deleted_nb_94() {
    let mut world = World::of(MachineKind::OpenShiftV1Beta1);
    let mut first = client_request();
    first.uid = "first".to_owned();
    content(&mut first).key_hash = [9; 32];
    let mut grants = Grants::of([&approved(first, at(125))]);
    grants.forget_old(at(130));
    world.grants = Some(grants.clone());
    assert!(!decided(&world, &client_request()));
    grants.forget_old(at(125 + 2 * HOUR));
    world.grants = Some(grants);
    assert!(decided(&world, &client_request()));
    let empty = world.evaluate_within(&client_request(), &Limits::default());
    assert_eq!(empty.verdict.outcome, Outcome::Approve);
}
