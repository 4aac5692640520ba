//! Histories with known answers, runs of a real register, and a comparison with trying all orders.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const DONE: Outcome = Outcome::Done;
const REFUSED: Outcome = Outcome::Refused;

fn seen(value: Value) -> Outcome {
    Outcome::Observed(Some(value))
}

const NOTHING: Outcome = Outcome::Observed(None);

fn swap(expected: Value, new: Value) -> Action {
    Action::CompareAndSwap { expected, new }
}

/// An operation on the key `k` with its times and its outcome.
fn op(action: Action, invoked: u64, responded: u64, outcome: Outcome) -> Operation {
    Operation { client: 0, key: "k".to_owned(), action, invoked, response: Some((responded, outcome)) }
}

fn unknown(action: Action, invoked: u64) -> Operation {
    Operation { client: 0, key: "k".to_owned(), action, invoked, response: None }
}

/// Operations one after another.
fn sequence(operations: &[(Action, Outcome)]) -> Vec<Operation> {
    let timed = operations.iter().zip((1..).step_by(2));
    timed.map(|(&(action, outcome), at)| op(action, at, at + 1, outcome)).collect()
}

fn passes(operations: Vec<Operation>) {
    assert!(every_order(&operations), "the test is wrong");
    check(&History::from(operations)).unwrap();
}

/// The history must fail, at this operation.
#[track_caller]
fn fails_at(operations: Vec<Operation>, index: usize) -> Box<Violation> {
    assert!(!every_order(&operations), "the test is wrong");
    let violation = check(&History::from(operations.clone())).unwrap_err();
    assert_eq!(violation.operation, operations[index], "{violation}");
    violation
}

/// The state after an operation; none if it cannot have had this outcome. Written after the definitions in
/// [`Action`] and [`Outcome`] alone.
fn after(state: Option<Value>, operation: &Operation) -> Option<Option<Value>> {
    let (may_change, changed) = match operation.action {
        Action::Read => (true, state),
        Action::Write(new) => (true, Some(new)),
        Action::CompareAndSwap { expected, new } => (state == Some(expected), Some(new)),
        Action::Create(new) => (state.is_none(), Some(new)),
        Action::Delete => (state.is_some(), None),
    };
    match operation.response.map(|(_, outcome)| outcome) {
        None => Some(if may_change { changed } else { state }),
        Some(Outcome::Observed(value)) => (value == state).then_some(state),
        Some(Outcome::Done) => may_change.then_some(changed),
        Some(Outcome::Refused) => {
            let is_true = !may_change || matches!(operation.action, Action::Write(_));
            is_true.then_some(state)
        }
    }
}

/// Tries all orders.
fn every_order(operations: &[Operation]) -> bool {
    fn from(state: Option<Value>, rest: &[&Operation]) -> bool {
        if rest.iter().all(|operation| operation.response.is_none()) {
            return true;
        }
        (0..rest.len()).any(|index| {
            let mut rest = rest.to_vec();
            let next = rest.remove(index);
            let is_late = rest.iter().any(|other| other.responded() < next.invoked);
            !is_late && after(state, next).is_some_and(|state| from(state, &rest))
        })
    }
    from(None, &operations.iter().collect::<Vec<_>>())
}

#[test]
fn an_empty_history_and_a_sequence_pass() {
    passes(Vec::new());
    passes(sequence(&[
        (Action::Read, NOTHING),
        (Action::Delete, REFUSED),
        (Action::Create(1), DONE),
        (Action::Create(2), REFUSED),
        (Action::Read, seen(1)),
        (swap(1, 3), DONE),
        (swap(1, 4), REFUSED),
        (Action::Write(5), DONE),
        (Action::Write(6), REFUSED),
        (Action::Read, seen(5)),
        (Action::Delete, DONE),
        (Action::Read, NOTHING),
        (swap(5, 7), REFUSED),
        (Action::Create(8), DONE),
    ]));
}

#[test]
fn a_stale_read_fails_and_shows_who_wrote_what_it_saw() {
    let operations = sequence(&[(Action::Write(1), DONE), (Action::Write(2), DONE), (Action::Read, seen(1))]);
    let violation = fails_at(operations.clone(), 2);
    assert_eq!(violation.writer.as_ref(), Some(&operations[0]));
    assert_eq!(violation.before, operations[..2]);
    assert!(violation.concurrent.is_empty());
    assert!(violation.to_string().contains("Read from 5 to 6: Observed(Some(1))"), "{violation}");
}

#[test]
fn a_read_during_a_write_may_see_either_value_and_not_first_the_new_then_the_old() {
    let during = |first: Value, second: Value| {
        vec![
            op(Action::Write(1), 1, 2, DONE),
            op(Action::Write(2), 3, 10, DONE),
            op(Action::Read, 4, 5, seen(first)),
            op(Action::Read, 6, 7, seen(second)),
        ]
    };
    passes(during(1, 1));
    passes(during(1, 2));
    passes(during(2, 2));
    let violation = fails_at(during(2, 1), 3);
    assert_eq!(violation.concurrent, during(2, 1)[1..2]);
}

#[test]
fn a_lost_update_fails() {
    fails_at(
        vec![
            op(Action::Write(1), 1, 2, DONE),
            op(swap(1, 2), 3, 6, DONE),
            op(swap(1, 3), 4, 5, DONE),
            op(Action::Read, 7, 8, seen(2)),
        ],
        1,
    );
}

#[test]
fn two_creations_fail_unless_there_is_a_removal_between() {
    let creations = vec![op(Action::Create(1), 1, 4, DONE), op(Action::Create(2), 2, 3, DONE)];
    fails_at(creations.clone(), 0);
    let removal = [op(Action::Delete, 1, 9, DONE)];
    passes(creations.into_iter().chain(removal).collect());
}

#[test]
fn a_refused_swap_fails_while_nothing_else_can_be_there() {
    fails_at(sequence(&[(Action::Write(1), DONE), (swap(1, 2), REFUSED)]), 1);
    fails_at(sequence(&[(Action::Create(1), REFUSED)]), 0);
    fails_at(sequence(&[(Action::Create(1), DONE), (Action::Delete, REFUSED)]), 1);
}

#[test]
fn reading_what_was_refused_or_never_written_or_is_written_later_fails() {
    fails_at(sequence(&[(Action::Write(1), REFUSED), (Action::Read, seen(1))]), 1);
    fails_at(
        sequence(&[
            (Action::Create(1), DONE),
            (Action::Create(2), REFUSED),
            (Action::Read, seen(1)),
            (Action::Read, seen(2)),
        ]),
        3,
    );
    fails_at(sequence(&[(Action::Read, seen(1))]), 0);
    fails_at(sequence(&[(Action::Read, seen(1)), (Action::Write(1), DONE)]), 0);
}

#[test]
fn an_acknowledged_write_that_is_gone_fails() {
    fails_at(sequence(&[(Action::Create(1), DONE), (Action::Read, NOTHING)]), 1);
    fails_at(sequence(&[(Action::Create(1), DONE), (Action::Delete, DONE), (Action::Read, seen(1))]), 2);
}

#[test]
fn an_unknown_write_may_appear_late_or_never_and_not_disappear_again() {
    let reads = |values: &[Value]| {
        let mut operations = vec![op(Action::Write(1), 1, 2, DONE), unknown(Action::Write(2), 3)];
        let timed = values.iter().zip((10..).step_by(2));
        operations.extend(timed.map(|(&value, at)| op(Action::Read, at, at + 1, seen(value))));
        operations
    };
    passes(reads(&[1, 1, 1]));
    passes(reads(&[1, 2, 2]));
    passes(reads(&[2, 2]));
    fails_at(reads(&[1, 2, 1]), 4);
}

#[test]
fn an_unknown_operation_has_no_effect_before_it_is_invoked() {
    fails_at(vec![op(Action::Read, 1, 2, seen(1)), unknown(Action::Write(1), 3)], 0);
}

#[test]
fn an_unknown_removal_or_creation_explains_what_is_seen_once() {
    let operations = vec![
        op(Action::Create(1), 1, 2, DONE),
        unknown(Action::Delete, 3),
        op(Action::Create(2), 4, 5, DONE),
        op(Action::Create(3), 6, 7, DONE),
    ];
    passes(operations[..3].to_vec());
    fails_at(operations, 3);
}

#[test]
fn keys_are_apart_and_the_violation_names_its_key() {
    let mut operations = sequence(&[(Action::Write(1), DONE), (Action::Read, seen(1))]);
    operations.push(Operation { key: "other".to_owned(), ..op(Action::Read, 9, 10, seen(1)) });
    let violation = check(&History::from(operations)).unwrap_err();
    assert_eq!(violation.operation.key, "other");
}

#[test]
fn a_history_is_recorded_by_threads_with_its_own_clock() {
    let history = History::default();
    let call = history.invoke(1, "k", Action::Write(1));
    let other = history.invoke(2, "k", Action::Read);
    history.respond(other, seen(1));
    history.respond(call, DONE);
    let lost = history.invoke(1, "k", Action::Write(2));
    drop(lost);
    let times: Vec<_> = history.operations().iter().map(|o| (o.client, o.invoked, o.responded())).collect();
    assert_eq!(times, [(1, 1, 4), (2, 2, 3), (1, 5, u64::MAX)]);
    check(&history).unwrap();
}

#[test]
#[should_panic(expected = "two operations write 1")]
fn a_value_that_is_written_twice_is_no_history() {
    let _ = check(&History::from(sequence(&[(Action::Write(1), DONE), (Action::Create(1), REFUSED)])));
}

/// Random numbers from a seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % u64::try_from(sides).unwrap()).unwrap()
    }
}

/// What kinds of operations a run has, each with its weight: read, write, swap, create, delete.
type Weights = [usize; 5];

const MIXED: Weights = [4, 2, 4, 1, 1];

/// A run of clients on a register, in which every operation takes effect at one moment between its two times. Of the
/// operations this many percent have an unknown outcome.
fn run(seed: u64, clients: usize, operations: usize, percent: usize, weights: Weights) -> Vec<Operation> {
    enum Client {
        Idle,
        Waits(usize),
        Knows(usize, Outcome),
    }
    let mut dice = Dice(seed);
    let mut state = None;
    let mut now = 1;
    let mut done: Vec<Operation> = Vec::new();
    let mut late: Vec<usize> = Vec::new();
    let mut last = vec![0; clients];
    let mut doing: Vec<Client> = (0..clients).map(|_| Client::Idle).collect();
    let mut take_effect = |operation: &Operation| {
        let (was, next) = (state, after(state, &Operation { response: None, ..operation.clone() }).unwrap());
        state = next;
        match operation.action {
            Action::Read => Outcome::Observed(was),
            // Values are unique: an operation that takes effect changes the state.
            _ if was == next => REFUSED,
            _ => DONE,
        }
    };
    loop {
        // Some events have the same time.
        now += u64::from(dice.below(4) > 0);
        if !late.is_empty() && dice.below(20) == 0 {
            let index = late.swap_remove(dice.below(late.len()));
            take_effect(&done[index]);
        }
        let client = dice.below(clients);
        doing[client] = match doing[client] {
            Client::Idle if done.len() == operations => {
                if doing.iter().all(|client| matches!(client, Client::Idle)) {
                    return done;
                }
                Client::Idle
            }
            Client::Idle => {
                let new = u64::try_from(done.len()).unwrap() + 1;
                let mut roll = dice.below(weights.iter().sum());
                let kind = weights.iter().position(|&weight| match roll.checked_sub(weight) {
                    Some(rest) => {
                        roll = rest;
                        false
                    }
                    None => true,
                });
                let expected = if dice.below(4) == 0 { new.saturating_sub(2) } else { last[client] };
                let action = match kind.unwrap() {
                    0 => Action::Read,
                    1 => Action::Write(new),
                    2 => swap(expected, new),
                    3 => Action::Create(new),
                    _ => Action::Delete,
                };
                done.push(Operation { client, ..unknown(action, now) });
                Client::Waits(done.len() - 1)
            }
            Client::Waits(index) if dice.below(100) < percent => {
                match dice.below(3) {
                    0 => drop(take_effect(&done[index])),
                    1 => late.push(index),
                    _ => {}
                }
                Client::Idle
            }
            Client::Waits(index) => {
                let outcome = take_effect(&done[index]);
                match (done[index].action, outcome) {
                    (_, Outcome::Observed(Some(value))) => last[client] = value,
                    (action, Outcome::Done) => last[client] = action.writes().unwrap_or(last[client]),
                    _ => {}
                }
                Client::Knows(index, outcome)
            }
            Client::Knows(index, outcome) => {
                done[index].response = Some((now, outcome));
                Client::Idle
            }
        };
    }
}

#[test]
fn long_runs_of_sixteen_clients_pass() {
    for (seed, weights) in
        [MIXED, [1, 1, 0, 0, 0], [1, 10, 0, 1, 1], [1, 0, 8, 0, 0], [0, 1, 0, 8, 8]].into_iter().enumerate()
    {
        for percent in [0, 2] {
            let operations = run(u64::try_from(seed).unwrap(), 16, 5000, percent, weights);
            check(&History::from(operations)).unwrap();
        }
    }
}

/// Two successful swaps of the same value, made of a run with one: the one that was refused is said to be done.
fn lose_an_update(operations: &mut [Operation], dice: &mut Dice) -> bool {
    let mut swapped = BTreeMap::new();
    for operation in operations.iter() {
        if let (Action::CompareAndSwap { expected, .. }, Some((_, Outcome::Done))) =
            (operation.action, operation.response)
        {
            swapped.insert(expected, ());
        }
    }
    let mut losers: Vec<&mut Operation> = operations
        .iter_mut()
        .filter(|operation| match (operation.action, operation.response) {
            (Action::CompareAndSwap { expected, .. }, Some((_, Outcome::Refused))) => {
                swapped.contains_key(&expected)
            }
            _ => false,
        })
        .collect();
    if losers.is_empty() {
        return false;
    }
    let index = dice.below(losers.len());
    let loser = &mut losers[index];
    loser.response = loser.response.map(|(responded, _)| (responded, DONE));
    true
}

#[test]
fn a_lost_update_in_a_long_run_fails() {
    for seed in 0..4 {
        let mut operations = run(seed, 16, 3000, 2, MIXED);
        assert!(lose_an_update(&mut operations, &mut Dice(seed)));
        check(&History::from(operations)).unwrap_err();
    }
}

#[test]
fn a_stale_read_after_a_long_run_fails_at_that_read() {
    for (seed, weights) in [(1, MIXED), (2, [1, 10, 0, 1, 1]), (3, [1, 1, 0, 0, 0])] {
        let mut operations = run(seed, 16, 3000, 0, weights);
        let end = operations.iter().map(Operation::responded).max().unwrap();
        let first = operations.iter().find(|o| matches!(o.response, Some((_, Outcome::Observed(Some(_))))));
        let (_, outcome) = first.unwrap().response.unwrap();
        operations.push(op(Action::Write(1 << 40), end + 1, end + 2, DONE));
        operations.push(op(Action::Read, end + 3, end + 4, outcome));
        let violation = check(&History::from(operations.clone())).unwrap_err();
        assert_eq!(Some(&violation.operation), operations.last());
    }
}

/// Any operation with any outcome that its action can have. Half of them are nonsense together.
fn any_operation(index: usize) -> impl Strategy<Value = Operation> {
    let new = u64::try_from(index).unwrap() + 1;
    (0..6_usize, 0..5_u64, 0..12_u64, 0..8_u64, 0..6_usize).prop_map(
        move |(kind, value, invoked, lasts, outcome)| {
            let action = match kind {
                0 | 1 => Action::Read,
                2 => Action::Write(new),
                3 => swap(value, new),
                4 => Action::Create(new),
                _ => Action::Delete,
            };
            let outcome = match (action, outcome) {
                (_, 0) => None,
                (Action::Read, _) => Some(Outcome::Observed(Some(value).filter(|&value| value > 0))),
                (_, 1 | 2) => Some(REFUSED),
                _ => Some(DONE),
            };
            Operation {
                response: outcome.map(|outcome| (invoked + lasts, outcome)),
                ..unknown(action, invoked)
            }
        },
    )
}

/// The checker must say what trying all orders says, and its violation must be the earliest.
fn agrees_with_every_order(operations: &[Operation]) -> Result<(), TestCaseError> {
    let checked = check(&History::from(operations.to_vec()));
    prop_assert_eq!(checked.is_ok(), every_order(operations), "{:?}", checked);
    if let Err(violation) = checked {
        let last = violation.operation.responded();
        let until = |is_known: &dyn Fn(u64) -> bool| -> Vec<Operation> {
            let mut prefix = operations.to_vec();
            for operation in &mut prefix {
                operation.response = operation.response.filter(|&(responded, _)| is_known(responded));
            }
            prefix
        };
        prop_assert!(!every_order(&until(&|responded| responded <= last)));
        prop_assert!(every_order(&until(&|responded| responded < last)));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn runs_on_a_register_pass(
        seed: u64, clients in 1..17_usize, operations in 0..300_usize, percent in 0..40_usize,
        weights in [1..9_usize, 0..9_usize, 0..9_usize, 0..9_usize, 0..9_usize],
    ) {
        let operations = run(seed, clients, operations, percent, weights);
        prop_assert_eq!(check(&History::from(operations)), Ok(()));
    }

    #[test]
    fn runs_that_lose_an_update_fail(seed: u64, clients in 2..9_usize, percent in 0..20_usize) {
        let mut operations = run(seed, clients, 60, percent, MIXED);
        prop_assume!(lose_an_update(&mut operations, &mut Dice(seed)));
        prop_assert!(check(&History::from(operations)).is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_few_operations_pass_exactly_if_some_order_explains_them(
        operations in (0..7_usize).prop_flat_map(|n| (0..n).map(any_operation).collect::<Vec<_>>())
    ) {
        agrees_with_every_order(&operations)?;
    }

    #[test]
    fn short_runs_with_one_outcome_changed_pass_exactly_if_some_order_explains_them(
        seed: u64, clients in 1..5_usize, percent in 0..50_usize, changed: prop::sample::Index, value in 0..8_u64,
    ) {
        let mut operations = run(seed, clients, 7, percent, MIXED);
        let operation = &mut operations[changed.index(7)];
        operation.response = operation.response.map(|(responded, outcome)| {
            let outcome = match outcome {
                Outcome::Observed(_) => Outcome::Observed(Some(value).filter(|&value| value > 0)),
                Outcome::Done => REFUSED,
                Outcome::Refused => DONE,
            };
            (responded, outcome)
        });
        agrees_with_every_order(&operations)?;
    }
}
