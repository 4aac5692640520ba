//! How many requests may wait, and which are left waiting (NB-70 to NB-75).

use portcullis_policy::approval::machine::{
    Known, Limits, Machine, MachineKind, Outcome, Reason, Request, Tripped,
};

use super::support::*;

fn client_of(name: &str, number: usize, seconds: i64) -> Request {
    let mut request = client_request();
    request.name = format!("csr-{name}-{number}");
    request.uid = request.name.clone();
    request.created = Some(at(seconds));
    let content = content(&mut request);
    content.common_name = format!("system:node:{name}");
    // A kubelet keeps its key, and so do those who ask in the place of one.
    content.key_hash = [1; 32];
    request
}

fn machines(count: usize) -> Vec<Machine> {
    (0..count)
        .map(|number| {
            let mut one = machine(MachineKind::OpenShiftV1Beta1, &worker());
            one.name = format!("machine-{number}");
            one.uid = one.name.clone();
            one.provider_id = None;
            one.addresses.truncate(1);
            one.addresses[0].value = format!("node-{number}");
            one
        })
        .collect()
}

fn limits(world: &World, requests: &[Request], nodes: &[String]) -> Limits {
    let machines = world.machines.as_deref().unwrap();
    let nodes = nodes.iter().map(String::as_str);
    let known = Known { machines, pools: &world.pools, unreadable: &world.unreadable, is_blind: false };
    Limits::of(requests, known, nodes, &[], &world.config, world.now)
}

#[test]
fn a_hundred_more_than_machines_or_nodes_may_wait_nb_70() {
    let world = World::with(machines(7));
    let nodes: Vec<_> = (0..9).map(|number| format!("n{number}")).collect();
    assert_eq!(limits(&world, &[], &[]).max_pending(), 107);
    assert_eq!(limits(&world, &[], &nodes).max_pending(), 109);
    assert_eq!(limits(&World::with([]), &[], &[]).max_pending(), 100);
}

#[test]
fn requests_count_for_an_hour_and_not_at_its_ends_nb_71() {
    let mut world = World::with([]);
    world.now = at(10_000);
    let counted = |seconds: i64| {
        let requests = [client_of("a", 0, 10_000 + seconds)];
        limits(&world, &requests, &[]).recently_pending()
    };
    assert_eq!([-3600, -3599, 0, 9, 10].map(counted), [0, 1, 1, 1, 0]);
    let mut requests = [client_of("a", 0, 9_999), serving_request(), client_request(), client_request()];
    requests[1].created = Some(at(9_999));
    requests[2] = approved(client_of("b", 0, 9_999), at(9_999));
    requests[3] = client_of("c", 0, 9_999);
    requests[3].signer_name = "example.com/other".to_owned();
    let found = limits(&world, &requests, &[]);
    assert_eq!((found.recently_pending(), found.pending_identities()), (2, 2));
}

#[test]
fn the_global_limit_stops_everything_beyond_it_and_nothing_at_it_nb_72_nb_154() {
    for (count, outcome) in [(100, Outcome::Approve), (101, Outcome::Hold)] {
        let mut world = World::of(MachineKind::OpenShiftV1Beta1);
        world.set_config("pendingLimit: global");
        // One machine: 101 may wait, the one that is decided among them.
        world.others = (0..count).map(|number| client_of(&format!("x{number}"), number, 100)).collect();
        let (decided, reason, rule) = world.answer(&client_request());
        assert_eq!(decided, outcome, "{count}");
        if outcome == Outcome::Hold {
            assert_eq!((reason, rule), (Reason::PendingLimit, "NB-80"));
        }
        let mut linked = linked(MachineKind::OpenShiftV1Beta1);
        linked.config = world.config.clone();
        linked.others = world.others.clone();
        let (decided, _, rule) = linked.answer(&serving_request());
        assert_eq!((decided, rule == "NB-100"), (outcome, outcome == Outcome::Hold));
    }
}

#[test]
fn the_limit_of_identities_holds_only_names_that_nobody_knows_nb_73_nb_154() {
    // One machine: 101 unknown names may wait.
    for (count, unknown) in [(101, Reason::MachineNotFound), (102, Reason::PendingLimit)] {
        let mut world = World::of(MachineKind::OpenShiftV1Beta1);
        world.others = (0..count).map(|number| client_of(&format!("x{number}"), number, 100)).collect();
        assert_eq!(world.answer(&client_request()).1, Reason::ClientApproved, "{count}");
        world.others.remove(0);
        assert_eq!(world.answer(&client_of("x0", 0, 100)).1, unknown, "{count}");
    }
}

#[test]
fn repeated_requests_of_one_name_count_once_nb_73() {
    let world = World::with([]);
    let requests: Vec<_> = (0..1000).map(|number| client_of("same", number, 100)).collect();
    let found = limits(&world, &requests, &[]);
    assert_eq!((found.recently_pending(), found.pending_identities()), (1000, 1));
    assert_eq!(found.tripped(), Tripped::No);
}

#[test]
fn names_of_nodes_are_known_nb_73() {
    let world = World::with([]);
    let requests: Vec<_> = (0..101).map(|number| client_of(&format!("x{number}"), number, 100)).collect();
    assert_eq!(limits(&world, &requests, &[]).tripped(), Tripped::Unmatched);
    assert_eq!(limits(&world, &requests, &["x5".to_owned()]).tripped(), Tripped::No);
}

#[test]
fn a_thousand_machines_with_abandoned_requests_all_come_in_nb_154() {
    for (mode, approvals) in [("identity", 1000), ("global", 0)] {
        let mut world = World::with(machines(1000));
        world.set_config(&format!("pendingLimit: {mode}"));
        world.now = at(3000);
        let requests: Vec<_> = (0..1000)
            .flat_map(|node| (0..5).map(move |number| (node, number)))
            .map(|(node, number)| client_of(&format!("node-{node}"), number, 100 + 600 * number as i64))
            .collect();
        let limits = limits(&world, &requests, &[]);
        let approved: Vec<_> = requests
            .iter()
            .filter(|request| world.evaluate_within(request, &limits).verdict.outcome == Outcome::Approve)
            .collect();
        assert_eq!(approved.len(), approvals, "{mode}");
        assert!(approved.iter().all(|request| request.name.ends_with("-4")), "the newest of each");
    }
}

#[test]
fn an_older_request_gives_way_to_a_newer_one_with_its_key_nb_75() {
    let mut world = World::of(MachineKind::ClusterV1Beta1);
    world.others = vec![client_of("worker-0", 9, 121)];
    assert_eq!(world.answer(&client_request()), (Outcome::Hold, Reason::Superseded, "NB-75"));
    for harmless in [
        client_of("worker-0", 9, 119),
        client_of("worker-0", 9, 120),
        client_of("worker-1", 9, 121),
        approved(client_of("worker-0", 1, 121), at(121)),
    ] {
        world.others = vec![harmless];
        assert_eq!(world.answer(&client_request()).1, Reason::ClientApproved);
    }
}

#[test]
fn of_more_than_five_requests_the_oldest_sound_one_and_the_newest_with_its_key_are_looked_at_nb_74() {
    let unread = |number: usize, seconds: i64| {
        let mut request = client_of("worker-0", number, seconds);
        content(&mut request).has_trailing_data = true;
        request
    };
    let mut world = World::of(MachineKind::OpenShiftV1Beta1);
    world.others = (0..4).map(|number| unread(number, 121)).collect();
    assert_eq!(world.answer(&unread(9, 120)), (Outcome::Hold, Reason::MalformedRequest, "NB-82"));
    world.others.push(unread(4, 121));
    assert_eq!(world.answer(&unread(9, 120)), (Outcome::Hold, Reason::PendingLimit, "NB-74"));
    assert_eq!(world.answer(&client_request()).1, Reason::ClientApproved);
    // While there is no Machine, the same requests wait for it, and not the others.
    world.machines = Ok(Vec::new());
    assert_eq!(world.answer(&unread(9, 120)).1, Reason::PendingLimit);
    assert_eq!(world.answer(&client_request()).1, Reason::MachineNotFound);
}

#[test]
fn counts_follow_single_changes_and_the_time_nb_71_nb_75b() {
    let world = World::with([]);
    let mut limits = limits(&world, &[], &[]);
    let put = |limits: &mut Limits, number: usize, seconds: i64, now: i64| {
        limits.put(&client_of(&format!("x{number}"), number, seconds), &[], &world.config, at(now));
    };
    (0..101).for_each(|number| put(&mut limits, number, 100, 130));
    assert_eq!((limits.recently_pending(), limits.tripped()), (101, Tripped::Unmatched));
    limits.remove("csr-x0-0");
    assert_eq!((limits.recently_pending(), limits.tripped()), (100, Tripped::No));
    put(&mut limits, 0, 141, 130);
    assert_eq!(limits.recently_pending(), 100, "more than ten seconds ahead");
    limits.advance(at(132));
    assert_eq!((limits.recently_pending(), limits.tripped()), (101, Tripped::Unmatched));
    limits.advance(at(3700));
    assert_eq!((limits.recently_pending(), limits.pending_identities()), (1, 1));
    put(&mut limits, 0, 141, 3700);
    assert_eq!(limits.recently_pending(), 1, "put twice");
    limits.remove("csr-x0-0");
    limits.remove("csr-x0-0");
    assert_eq!((limits.recently_pending(), limits.tripped()), (0, Tripped::No));
}
