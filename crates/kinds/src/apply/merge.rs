//! Merges an applied configuration into an object: what it sets is set, everything else stays.

use std::collections::{HashMap, VecDeque};

use serde_json::{Map, Value};

use super::compare::{items, members};
use super::schema::{Schema, Structure};
use super::step::{self, Step};

/// Merges a configuration into a live value. What the schema does not know stays as it is.
fn merged<S: Schema>(schema: S, live: Option<Value>, config: &Value) -> Value {
    match (schema.structure(), config) {
        (Structure::Map | Structure::Deduced, Value::Object(config)) if is_map(live.as_ref()) => {
            map(schema, live, config)
        }
        (Structure::Set | Structure::KeyedList, Value::Array(config)) if is_list(live.as_ref()) => {
            list(schema, live, config)
        }
        // Nothing is said, so what is there stays.
        (Structure::Map, Value::Null) if members(live.as_ref()).is_some_and(|live| !live.is_empty()) => {
            live.unwrap_or_default()
        }
        (Structure::Set | Structure::KeyedList, Value::Null) if !items(live.as_ref()).is_empty() => {
            live.unwrap_or_default()
        }
        _ => config.clone(),
    }
}

fn is_map(live: Option<&Value>) -> bool {
    live.is_none_or(|live| live.is_object() || live.is_null())
}

fn is_list(live: Option<&Value>) -> bool {
    live.is_none_or(|live| live.is_array() || live.is_null())
}

fn map<S: Schema>(schema: S, live: Option<Value>, config: &Map<String, Value>) -> Value {
    let members = match live {
        Some(Value::Object(members)) => members,
        _ => Map::new(),
    };
    Value::Object(merged_object(schema, members, config))
}

/// Merges a configuration into a live object. What the schema does not know stays as it is.
pub(super) fn merged_object<S: Schema>(
    schema: S,
    mut members: Map<String, Value>,
    config: &Map<String, Value>,
) -> Map<String, Value> {
    for (name, value) in config {
        let Some(inner) = schema.field(name).or_else(|| schema.inner()) else { continue };
        let live = members.remove(name);
        members.insert(name.clone(), merged(inner, live, value));
    }
    members
}

/// An entry of the live list.
struct Live {
    step: Option<Step>,
    value: Option<Value>,
    /// Whether another live entry has the same step.
    is_repeated: bool,
}

/// Merges lists whose entries are told apart. The order is that of the configuration for its entries; the other live
/// entries stay where they are between them.
fn list<S: Schema>(schema: S, live: Option<Value>, config: &[Value]) -> Value {
    let live = match live {
        Some(Value::Array(live)) => live,
        _ => Vec::new(),
    };
    let (mut live, places) = indexed(schema, live);
    let config: Vec<(Step, &Value)> =
        config.iter().filter_map(|item| Some((step::entry(schema, item).ok()?, item))).collect();
    let wanted: HashMap<&Step, usize> = config.iter().enumerate().map(|(at, (step, _))| (step, at)).collect();
    // The entries that both have, in the order of the configuration.
    let mut shared: VecDeque<&Step> =
        config.iter().map(|(step, _)| step).filter(|step| places.contains_key(*step)).collect();
    let mut next_shared = shared.pop_front();
    let mut taken = vec![false; config.len()];
    let mut out = Vec::with_capacity(live.len().max(config.len()));
    let (mut at_live, mut at_config) = (0_usize, 0_usize);
    loop {
        let live_step = live.get(at_live).map(|entry| entry.step.clone());
        let config_entry = config.get(at_config);
        if live_step.is_none() && config_entry.is_none() {
            return Value::Array(out);
        }
        let live_at = live_step.as_ref().and_then(Option::as_ref).and_then(|step| wanted.get(step)).copied();
        if let (Some(Some(step)), Some((next, _))) = (&live_step, config_entry) {
            let is_shared_later = live_at.is_some() && next_shared.is_some_and(|shared| shared != step);
            if step != next && is_shared_later {
                at_live = at_live.saturating_add(1);
                continue;
            }
        }
        let is_same = match (&live_step, config_entry) {
            (Some(Some(step)), Some((next, _))) => step == next,
            _ => false,
        };
        if !is_same && let Some(entry) = live.get_mut(at_live) {
            match live_at {
                None => {
                    out.extend(entry.value.take());
                    at_live = at_live.saturating_add(1);
                    continue;
                }
                // It is part of the result already.
                Some(at) if taken.get(at).copied().unwrap_or_default() => {
                    at_live = at_live.saturating_add(1);
                }
                Some(_) => {}
            }
        }
        let Some((step, value)) = config_entry else { continue };
        let found = places.get(step).and_then(|at| live.get_mut(*at));
        let old = found.and_then(|entry| match entry.is_repeated {
            true => None,
            false => entry.value.take(),
        });
        if let Some(inner) = schema.inner() {
            out.push(merged(inner, old, value));
        }
        if let Some(taken) = taken.get_mut(at_config) {
            *taken = true;
        }
        at_config = at_config.saturating_add(1);
        if is_same {
            at_live = at_live.saturating_add(1);
        }
        if is_same || next_shared == Some(step) {
            next_shared = shared.pop_front();
        }
    }
}

fn indexed<S: Schema>(schema: S, live: Vec<Value>) -> (Vec<Live>, HashMap<Step, usize>) {
    let mut places: HashMap<Step, usize> = HashMap::with_capacity(live.len());
    let mut entries: Vec<Live> = Vec::with_capacity(live.len());
    for value in live {
        let step = step::entry(schema, &value).ok();
        let mut is_repeated = false;
        if let Some(step) = &step {
            match places.get(step).and_then(|first| entries.get_mut(*first)) {
                Some(first) => {
                    first.is_repeated = true;
                    is_repeated = true;
                }
                None => drop(places.insert(step.clone(), entries.len())),
            }
        }
        entries.push(Live { step, value: Some(value), is_repeated });
    }
    (entries, places)
}
