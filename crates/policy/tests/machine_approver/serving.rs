//! The serving path: one request for each rule that passes, and one that does not.

use portcullis_apimachinery::time::Instant;
use portcullis_policy::approval::machine::{
    CheckResult, Cluster, Current, DialTarget, Grants, HostSubnet, Key, Leaf, Limits, MachineKind,
    MachinePool, Network, Outcome, Reason, Request, dial_target,
};
use proptest::prelude::*;

use super::support::*;

type Answer = (Outcome, Reason, &'static str);

const BY_MACHINE: Answer = (Outcome::Approve, Reason::ServingApproved, "NB-116");
const RENEWED: Answer = (Outcome::Approve, Reason::ServingRenewed, "NB-112");
const BY_EGRESS: Answer = (Outcome::Approve, Reason::EgressApproved, "NB-119");

/// What is answered in all Machine APIs where `worker-0` has its node.
fn answers(expected: Answer, change: impl Fn(&mut World, &mut Request)) {
    for mut world in MachineKind::ALL.map(linked) {
        let mut request = serving_request();
        assert_eq!(world.answer(&request), BY_MACHINE);
        change(&mut world, &mut request);
        let verdict = world.decide(&request);
        assert_eq!((verdict.outcome, verdict.reason, verdict.rule), expected, "{}", verdict.detail);
    }
}

fn held(reason: Reason, rule: &'static str, change: impl Fn(&mut World, &mut Request)) {
    answers((Outcome::Hold, reason, rule), change);
}

fn ips(texts: &[&str]) -> Vec<std::net::IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn all_checks_stand_in_the_list_in_their_order_nb_143() {
    let evaluation = linked(MachineKind::ClusterV1Beta1).evaluate(&serving_request());
    let rules: Vec<_> = evaluation.checks.iter().map(|check| (check.rule, check.is_alternative)).collect();
    let steps = [
        "NB-100", "NB-75", "NB-74", "NB-101", "NB-102", "NB-103", "NB-104", "NB-105", "NB-106", "NB-107",
        "NB-108",
    ];
    let ways = ["NB-112", "NB-116", "NB-119"];
    let expected: Vec<_> = steps
        .into_iter()
        .map(|rule| (rule, false))
        .chain(ways.into_iter().map(|rule| (rule, true)))
        .collect();
    assert_eq!(rules, expected);
}

#[test]
fn a_request_that_cannot_be_read_or_has_an_unsound_key_is_malformed_nb_101() {
    held(Reason::MalformedRequest, "NB-101", |_, request| request.content = Err("not base64".to_owned()));
    held(Reason::MalformedRequest, "NB-101", |_, request| content(request).key = Key::Rsa { bits: 1024 });
    held(Reason::MalformedRequest, "NB-101", |_, request| content(request).has_trailing_data = true);
    answers(BY_MACHINE, |_, request| content(request).key = Key::Rsa { bits: 2048 });
}

#[test]
fn only_nodes_ask_for_serving_certificates_nb_102() {
    for user in ["system:node:", "system:nodes:worker-0", "worker-0", "", BOOTSTRAPPER] {
        held(Reason::NotANodeRequest, "NB-102", |_, request| {
            request.username = user.to_owned();
            content(request).common_name = user.to_owned();
        });
    }
}

#[test]
fn a_node_has_both_groups_and_may_have_more_nb_103() {
    for groups in [&["system:nodes"][..], &["system:authenticated"], &[]] {
        held(Reason::WrongRequesterGroups, "NB-103", |_, request| request.groups = strings(groups));
    }
    answers(BY_MACHINE, |_, request| request.groups.push("example:more".to_owned()));
}

#[test]
fn the_usages_of_a_serving_certificate_are_a_set_nb_104_nb_152() {
    answers(BY_MACHINE, |_, r| r.usages = strings(&["digital signature", "key encipherment", "server auth"]));
    let others: [&[&str]; 7] = [
        &[],
        &["server auth"],
        &["digital signature", "server auth", "client auth"],
        &["digital signature", "client auth"],
        &["digital signature", "digital signature", "client auth"],
        &["key encipherment", "server auth"],
        &["digital signature", "key encipherment", "server auth", "client auth"],
    ];
    for usages in others {
        held(Reason::WrongUsages, "NB-104", |_, request| request.usages = strings(usages));
    }
}

#[test]
fn a_node_asks_in_its_own_name_nb_105() {
    for name in ["system:node:worker-1", "", "worker-0", "system:node:Worker-0"] {
        held(Reason::CommonNameMismatch, "NB-105", |_, r| content(r).common_name = name.to_owned());
    }
}

#[test]
fn the_organization_is_the_nodes_alone_nb_106() {
    for organizations in [&[][..], &["system:masters"], &["system:nodes", "system:masters"], &["nodes"]] {
        held(Reason::WrongOrganization, "NB-106", |_, request| {
            content(request).organizations = strings(organizations);
        });
    }
}

#[test]
fn names_that_no_node_may_have_are_refused_nb_107() {
    held(Reason::ForbiddenSAN, "NB-107", |_, r| content(r).email = strings(&["a@example.com"]));
    held(Reason::ForbiddenSAN, "NB-107", |_, r| content(r).uri = strings(&["spiffe://a/b"]));
    held(Reason::ForbiddenSAN, "NB-107", |_, r| content(r).other_names = 1);
    held(Reason::ForbiddenSAN, "NB-107", |_, r| {
        content(r).dns.clear();
        content(r).ip.clear();
    });
    for name in [
        "*.mine.internal",
        "*",
        "w*",
        "kubernetes",
        "kubernetes.default.svc.cluster.local",
        "localhost",
        "a.localhost.",
        "api.mine.example.com",
        "",
        "a b",
    ] {
        held(Reason::ForbiddenSAN, "NB-107", |world, request| {
            world.api_server_names = strings(&["api.mine.example.com"]);
            content(request).dns.push(name.to_owned());
        });
    }
    for ip in ["0.0.0.0", "::", "127.0.0.1", "127.1.2.3", "::1", "224.0.0.1", "ff02::1", "::ffff:127.0.0.1"] {
        held(Reason::ForbiddenSAN, "NB-107", |_, request| content(request).ip.extend(ips(&[ip])));
    }
    // Not even when the Machine says so.
    held(Reason::ForbiddenSAN, "NB-107", |world, request| {
        world.machine().addresses[0].value = "kubernetes.default".to_owned();
        content(request).dns = strings(&["kubernetes.default"]);
    });
}

#[test]
fn only_a_kubelets_extensions_may_be_requested_nb_108() {
    for oid in ["2.5.29.15", "2.5.29.37", "2.5.29.19", "1.3.6.1.4.1.11129.2.1.21"] {
        answers(BY_MACHINE, |_, request| content(request).extensions.push(extension(oid)));
    }
    held(Reason::ForbiddenExtension, "NB-108", |_, r| content(r).extensions.push(extension("2.5.29.30")));
    held(Reason::ForbiddenExtension, "NB-108", |_, request| {
        let mut authority = extension("2.5.29.19");
        authority.is_ca = true;
        content(request).extensions.push(authority);
    });
}

#[test]
fn when_no_way_authorizes_all_causes_are_told_nb_109() {
    answers((Outcome::Retry, Reason::NoAuthorizationPath, "NB-109"), |world, _| {
        let mut twin = world.machine().clone();
        twin.uid = "other".to_owned();
        world.machines.as_mut().unwrap().push(twin);
    });
    let mut world = linked(MachineKind::OpenShiftV1Beta1);
    world.machine().node_ref = None;
    let detail = world.decide(&serving_request()).detail;
    for cause in ["NB-112: ", "NB-116: ", "NB-119: ", "nobody dialled"] {
        assert!(detail.contains(cause), "{detail}");
    }
}

/// A world where only the current certificate speaks for the node.
fn renewable(world: &mut World) {
    world.machines = Ok(Vec::new());
    world.current = Ok(leaf());
}

#[test]
fn a_certificate_of_the_same_names_is_renewed_nb_112() {
    answers(RENEWED, |world, _| renewable(world));
    // The order does not count, and addresses compare as such.
    answers(RENEWED, |world, request| {
        renewable(world);
        let leaf = world.current.as_mut().unwrap();
        leaf.dns = strings(&["b.example.com", "worker-0"]);
        leaf.ip = ips(&["fd00::1", "10.0.0.10"]);
        content(request).dns = strings(&["worker-0", "b.example.com"]);
        content(request).ip = ips(&["::ffff:10.0.0.10", "fd00:0::1"]);
    });
}

#[test]
fn other_names_are_no_renewal_nb_112() {
    let pending = (Outcome::Retry, Reason::NodeRefPending, "NB-114");
    let changes: [fn(&mut Leaf); 8] = [
        |leaf| leaf.dns.push("worker-1".to_owned()),
        |leaf| leaf.dns.push("worker-0".to_owned()),
        |leaf| leaf.dns.clear(),
        |leaf| leaf.ip.clear(),
        |leaf| leaf.ip = ips(&["10.0.0.11"]),
        |leaf| leaf.email.push("a@example.com".to_owned()),
        |leaf| leaf.uri.push("spiffe://a/b".to_owned()),
        |leaf| leaf.common_name = "system:node:worker-1".to_owned(),
    ];
    for change in changes {
        answers(pending, |world, _| {
            renewable(world);
            change(world.current.as_mut().unwrap());
        });
    }
}

#[test]
fn a_certificate_renews_only_while_it_is_valid_nb_112() {
    let pending = (Outcome::Retry, Reason::NodeRefPending, "NB-114");
    let valid = |not_before: i64, not_after: i64| {
        move |world: &mut World, _: &mut Request| {
            renewable(world);
            world.now = at(500);
            let leaf = world.current.as_mut().unwrap();
            (leaf.not_before, leaf.not_after) = (at(not_before), at(not_after));
        }
    };
    answers(RENEWED, valid(500, 500));
    answers(pending, valid(501, 600));
    answers(pending, valid(400, 499));
}

#[test]
fn a_renewal_may_be_made_to_need_a_live_machine_nb_113() {
    let set = |world: &mut World| {
        world.set_config("renewalRequiresMachine: true");
        world.current = Ok(leaf());
    };
    answers(RENEWED, |world, _| set(world));
    answers((Outcome::Retry, Reason::NodeRefPending, "NB-114"), |world, _| {
        set(world);
        world.machines = Ok(Vec::new());
    });
    // The Machine that goes still authorizes by its addresses, but by no renewal.
    answers(BY_MACHINE, |world, _| {
        set(world);
        world.machine().is_deleting = true;
    });
    answers(RENEWED, |world, _| {
        set(world);
        world.machines = Ok(Vec::new());
        world.pools = vec![pool()];
    });
}

fn pool() -> MachinePool {
    MachinePool {
        name: "pool".to_owned(),
        cluster_name: "mine".to_owned(),
        node_refs: strings(&["worker-0"]),
        ..MachinePool::default()
    }
}

#[test]
fn the_machine_is_the_one_that_refers_to_the_node_nb_114() {
    for node in [None, Some("worker-1"), Some("Worker-0"), Some("")] {
        answers((Outcome::Retry, Reason::NodeRefPending, "NB-114"), |world, _| {
            world.machine().node_ref = node.map(str::to_owned);
        });
    }
    answers((Outcome::Retry, Reason::MachineLookupFailed, "NB-109"), |world, _| {
        world.machines = Err("timed out".to_owned());
    });
}

#[test]
fn every_dns_name_is_the_machines_nb_115() {
    for name in ["worker-0", "WORKER-0.", "worker-0.mine.internal", "worker-0.example.com."] {
        answers(BY_MACHINE, |_, request| content(request).dns = strings(&[name, "worker-0"]));
    }
    answers(BY_MACHINE, |world, request| {
        world.machine().addresses[0].value = "Other.Example.com.".to_owned();
        content(request).dns = strings(&["other.example.com"]);
    });
    for name in ["worker-1", "worker-0.other", "10.0.0.10", "worker-0.."] {
        let expected = match name {
            "worker-0.." => (Outcome::Hold, Reason::ForbiddenSAN, "NB-107"),
            _ => (Outcome::Retry, Reason::SANNotOwned, "NB-117"),
        };
        answers(expected, |_, request| content(request).dns.push(name.to_owned()));
    }
}

#[test]
fn every_address_is_the_machines_nb_116() {
    for ip in ["192.0.2.10", "::ffff:10.0.0.10"] {
        answers(BY_MACHINE, |_, request| content(request).ip = ips(&[ip, "10.0.0.10"]));
    }
    answers(BY_MACHINE, |world, request| {
        world.machine().addresses[4].value = "fd00:0:0:0:0::0001".to_owned();
        content(request).ip = ips(&["fd00::1"]);
    });
    for ip in ["10.0.0.11", "fd00::1", "169.254.169.254"] {
        answers((Outcome::Retry, Reason::SANNotOwned, "NB-117"), |_, r| content(r).ip.extend(ips(&[ip])));
    }
    // A name that looks like an address is none, and the other way round.
    answers((Outcome::Retry, Reason::SANNotOwned, "NB-117"), |world, request| {
        world.machine().addresses[3].value = "10.0.0.99".to_owned();
        content(request).ip = ips(&["10.0.0.99"]);
    });
}

#[test]
fn what_is_not_the_machines_is_named_beside_what_is_nb_117() {
    let mut request = serving_request();
    content(&mut request).ip.extend(ips(&["10.9.9.9"]));
    content(&mut request).dns.push("evil.example.com".to_owned());
    let detail = linked(MachineKind::ClusterV1Beta2).decide(&request).detail;
    for part in ["10.9.9.9", "evil.example.com", "worker-0.mine.internal", "192.0.2.10"] {
        assert!(detail.contains(part), "{detail}");
    }
}

#[test]
fn a_machine_without_addresses_is_waited_for_nb_117() {
    let pending = (Outcome::Retry, Reason::MachineAddressesPending, "NB-117");
    answers(pending, |world, _| world.machine().addresses.clear());
    answers(pending, |world, _| {
        world.machines = Ok(Vec::new());
        world.pools = vec![pool()];
    });
}

#[test]
fn addresses_that_come_later_authorize_the_same_request_nb_156() {
    for kind in MachineKind::ALL {
        let complete = linked(kind);
        for delay in [0, 1, 15, 60, 120] {
            let request = serving_request();
            for second in [0, delay, delay + 15] {
                let mut world = complete.clone();
                world.now = at(120 + second);
                if second < delay {
                    world.machine().addresses.clear();
                }
                let verdict = world.decide(&request);
                let expected =
                    if second < delay { Reason::MachineAddressesPending } else { Reason::ServingApproved };
                assert_eq!(verdict.reason, expected);
                assert!(verdict.reason.comes_soon() || verdict.outcome == Outcome::Approve);
            }
        }
    }
}

#[test]
fn what_the_node_says_of_itself_authorizes_nothing_nb_118() {
    answers((Outcome::Retry, Reason::SANNotOwned, "NB-117"), |world, request| {
        world.node.as_mut().unwrap().as_mut().unwrap().internal_ips.push("10.0.0.66".to_owned());
        content(request).ip.extend(ips(&["10.0.0.66"]));
    });
}

#[test]
fn configured_names_are_added_for_the_machines_that_are_selected_nb_144() {
    let extra = "extraSANs:\n- {selector: {matchLabels: {role: ROLE}}, dnsNames: [vip.example.com], \
        ipAddresses: [10.0.0.100]}";
    let asks = |request: &mut Request| {
        content(request).dns.push("vip.example.com".to_owned());
        content(request).ip.extend(ips(&["10.0.0.100"]));
    };
    answers(BY_MACHINE, |world, request| {
        world.set_config(&extra.replace("ROLE", "worker"));
        asks(request);
        let detail = world.decide(request).detail;
        assert!(detail.contains("extraSANs vip.example.com, 10.0.0.100"), "{detail}");
    });
    answers((Outcome::Retry, Reason::SANNotOwned, "NB-117"), |world, request| {
        world.set_config(&extra.replace("ROLE", "control-plane"));
        asks(request);
    });
}

/// A world where only the egress addresses speak for what is asked.
fn egress(world: &mut World, request: &mut Request) {
    renewable(world);
    world.is_openshift_sdn = true;
    world.network = Ok(Some(HostSubnet {
        egress_ips: ips(&["10.0.0.200"]),
        egress_cidrs: vec!["10.0.1.0/24".parse().unwrap()],
    }));
    content(request).ip = ips(&["10.0.0.10", "10.0.0.200", "10.0.1.7"]);
}

#[test]
fn egress_addresses_join_the_certificate_on_openshift_sdn_nb_119() {
    answers(BY_EGRESS, egress);
    let pending = (Outcome::Retry, Reason::NodeRefPending, "NB-114");
    answers(pending, |world, request| {
        egress(world, request);
        world.is_openshift_sdn = false;
    });
    answers(pending, |world, request| {
        egress(world, request);
        content(request).ip.extend(ips(&["10.0.2.1"]));
    });
    answers(pending, |world, request| {
        egress(world, request);
        content(request).dns.push("worker-1".to_owned());
    });
    answers(pending, |world, request| {
        egress(world, request);
        world.network = Ok(None);
    });
    answers(pending, |world, request| {
        egress(world, request);
        world.current.as_mut().unwrap().not_after = Instant::ZERO;
    });
    answers((Outcome::Retry, Reason::NetworkTypeUnknown, "NB-119"), |world, request| {
        egress(world, request);
        world.network = Err("403 Forbidden".to_owned());
    });
    // Without a current certificate the network does not matter.
    answers(pending, |world, request| {
        egress(world, request);
        world.network = Err("403 Forbidden".to_owned());
        world.current = Err("refused".to_owned());
    });
}

/// Where the kubelet would be dialled.
fn dialled(world: &World) -> Result<DialTarget, String> {
    let (limits, grants) = (Limits::default(), Grants::default());
    let cluster = Cluster {
        now: world.now,
        machines: world.machines.as_deref().map_err(String::as_str),
        unreadable: &[],
        pools: &world.pools,
        node: world.node.as_ref().map(Option::as_ref).map_err(String::as_str),
        has_bootstrap_ca: false,
        current: Current::Unavailable(""),
        network: Network::Other,
        limits: &limits,
        grants: &grants,
        api_server_names: &[],
    };
    dial_target(&serving_request(), &cluster, &world.config)
}

#[test]
fn the_kubelet_is_dialled_at_the_first_internal_address_nb_110() {
    let world = linked(MachineKind::OpenShiftV1Beta1);
    assert_eq!(dialled(&world).unwrap().socket().to_string(), "10.0.0.10:10250");
    let changed = |change: fn(&mut World)| {
        let mut world = linked(MachineKind::OpenShiftV1Beta1);
        change(&mut world);
        dialled(&world)
    };
    let node = |world: &mut World, address: &str| {
        world.node.as_mut().unwrap().as_mut().unwrap().internal_ips[0] = address.to_owned();
    };
    assert!(changed(|world| world.node = Ok(None)).is_err());
    assert!(changed(|world| world.node = Err("500".to_owned())).is_err());
    assert!(changed(|world| world.node.as_mut().unwrap().as_mut().unwrap().internal_ips.clear()).is_err());
    assert!(changed(|world| world.node.as_mut().unwrap().as_mut().unwrap().kubelet_port = 0).is_err());
    let mut named = world.clone();
    node(&mut named, "worker-0");
    assert!(dialled(&named).is_err());
    let mut six = world;
    node(&mut six, "fd00::10");
    six.machine().addresses[4].value = "fd00:0::10".to_owned();
    assert_eq!(dialled(&six).unwrap().socket().to_string(), "[fd00::10]:10250");
}

#[test]
fn only_addresses_of_the_machine_or_of_node_networks_are_dialled_nb_111() {
    let mut world = linked(MachineKind::ClusterV1Beta2);
    world.node.as_mut().unwrap().as_mut().unwrap().internal_ips[0] = "169.254.169.254".to_owned();
    let error = dialled(&world).unwrap_err();
    assert!(error.contains("169.254.169.254") && error.contains("nodeCIDRs"), "{error}");
    world.set_config("nodeCIDRs: [169.254.0.0/16]");
    assert!(dialled(&world).is_ok());
    let mut unlinked = linked(MachineKind::ClusterV1Beta2);
    unlinked.machine().node_ref = None;
    assert!(dialled(&unlinked).is_err());
    unlinked.set_config("nodeCIDRs: [10.0.0.0/8]");
    assert!(dialled(&unlinked).is_ok());
}

#[test]
fn only_one_way_needs_to_authorize() {
    let mut world = linked(MachineKind::OpenShiftV1Beta1);
    world.current = Ok(leaf());
    let evaluation = world.evaluate(&serving_request());
    assert_eq!(evaluation.verdict.reason, Reason::ServingRenewed);
    let passed = |rule| {
        let check = evaluation.checks.iter().find(|check| check.rule == rule).unwrap();
        matches!(check.result, CheckResult::Passed(_))
    };
    assert!(passed("NB-112") && passed("NB-116") && !passed("NB-119"));
}

proptest! {
    #[test]
    fn usages_are_taken_by_the_set_alone_nb_152(
        usages in prop::collection::vec(
            prop::sample::select(vec!["digital signature", "client auth", "key encipherment", "server auth"]), 0..6),
    ) {
        let mut request = serving_request();
        request.usages = strings(&usages);
        let has = |usage| usages.contains(&usage);
        let expected = has("digital signature") && has("server auth") && !has("client auth");
        let approved = linked(MachineKind::ClusterV1Beta1).decide(&request).outcome == Outcome::Approve;
        prop_assert_eq!(approved, expected);
    }
}
