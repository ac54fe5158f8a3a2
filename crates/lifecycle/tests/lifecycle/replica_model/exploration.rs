//! Breadth-first exploration of all reachable states. The first violation therefore has a shortest trace.

use std::collections::hash_map::{DefaultHasher, Entry};
use std::collections::{HashMap, VecDeque};
use std::fmt::Write as _;
use std::hash::{BuildHasherDefault, Hash, Hasher};

use super::guard::Violation;
use super::model::{Model, Scope};
use super::state::State;
use super::step::Step;

/// Result of an exploration.
pub struct Exploration {
    /// Number of distinct states.
    pub states: usize,
    /// Number of steps between them.
    pub steps: usize,
    /// Number of distinct drivers.
    pub drivers: usize,
    /// First violation, with its trace.
    pub violation: Option<(Violation, String)>,
}

/// Step that first reached a state.
type Origin = Option<(u32, Step)>;

/// Explores all states in the scope until a violation. Passes each state to `visit`, with true if all operations
/// have ended.
pub fn explore(scope: Scope, mut visit: impl FnMut(&State, bool)) -> Exploration {
    let mut model = Model::new(scope);
    let initial = model.initial_state();
    let mut indices: HashMap<u64, u32, BuildHasherDefault<DefaultHasher>> = HashMap::default();
    indices.insert(hash_of(&initial), 0);
    let mut origins: Vec<Origin> = vec![None];
    // Edges without faults, and states in which all operations have ended.
    let (mut edges, mut ends): (Vec<(u32, u32)>, Vec<u32>) = (Vec::new(), Vec::new());
    // States are visited in the order of their indices.
    let (mut queue, mut index, mut step_count) = (VecDeque::from([initial]), 0, 0);
    let mut steps = Vec::new();
    let mut violation = None;
    'states: while let Some(state) = queue.pop_front() {
        let is_over = model.is_over(&state);
        visit(&state, is_over);
        if is_over {
            ends.push(index);
        }
        model.list_steps(&state, &mut steps);
        for &step in &steps {
            let next = match model.apply(&state, step) {
                Ok(next) => next,
                Err(found) => {
                    violation = Some((found, index, Some(step)));
                    break 'states;
                }
            };
            step_count += 1;
            let count = u32::try_from(origins.len()).unwrap();
            let target = match indices.entry(hash_of(&next)) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(free) => {
                    free.insert(count);
                    origins.push(Some((index, step)));
                    queue.push_back(next);
                    count
                }
            };
            if !step.is_fault() {
                edges.push((index, target));
            }
        }
        index += 1;
    }
    if violation.is_none() {
        violation =
            find_stuck_state(origins.len(), &edges, &ends).map(|state| (Violation::Stuck, state, None));
    }
    Exploration {
        states: origins.len(),
        steps: step_count,
        drivers: model.machines.node_count(),
        violation: violation
            .map(|(violation, state, last)| (violation, describe_trace(scope, &origins, state, last))),
    }
}

/// Hash function for states, which consist of many small fields. Its mixing function is that of splitmix64.
struct StateHasher(u64);

impl StateHasher {
    fn mix(&mut self, word: u64) {
        let z = (self.0 ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        self.0 = z ^ (z >> 31);
    }
}

impl Hasher for StateHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.mix(u64::from(*byte)));
    }

    fn write_u8(&mut self, value: u8) {
        self.mix(u64::from(value));
    }

    fn write_u16(&mut self, value: u16) {
        self.mix(u64::from(value));
    }

    fn write_usize(&mut self, value: usize) {
        self.mix(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.mix(value as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

fn hash_of(state: &State) -> u64 {
    let mut hasher = StateHasher(0);
    state.hash(&mut hasher);
    hasher.finish()
}

/// Returns the first state from which no path without faults leads to an end.
fn find_stuck_state(count: usize, edges: &[(u32, u32)], ends: &[u32]) -> Option<u32> {
    // The sources of all edges, ordered by their targets. `starts` contains the position of each target.
    let at = |index: u32| usize::try_from(index).unwrap();
    let mut starts = vec![0_usize; count + 2];
    for (_, target) in edges {
        starts[at(*target) + 2] += 1;
    }
    for index in 2..starts.len() {
        starts[index] += starts[index - 1];
    }
    let mut sources = vec![0_u32; edges.len()];
    for (source, target) in edges {
        let position = &mut starts[at(*target) + 1];
        sources[*position] = *source;
        *position += 1;
    }
    let mut can_end = vec![false; count];
    let mut pending = ends.to_vec();
    while let Some(state) = pending.pop() {
        if !std::mem::replace(&mut can_end[at(state)], true) {
            pending.extend(&sources[starts[at(state)]..starts[at(state) + 1]]);
        }
    }
    can_end.iter().position(|can_end| !can_end).map(|index| u32::try_from(index).unwrap())
}

/// Describes the steps to a state, and the state after each step.
fn describe_trace(scope: Scope, origins: &[Origin], state: u32, last: Option<Step>) -> String {
    let (mut steps, mut index) = (Vec::from_iter(last), state);
    while let Some((earlier, step)) = origins[usize::try_from(index).unwrap()] {
        steps.push(step);
        index = earlier;
    }
    let mut model = Model::new(scope);
    let mut state = model.initial_state();
    let mut text = String::new();
    for (number, step) in (1..).zip(steps.into_iter().rev()) {
        let _ = writeln!(text, "{number:3}. {step}");
        match model.apply(&state, step) {
            Ok(next) => state = next,
            Err(_) => break,
        }
        let _ = writeln!(text, "     {}", model.describe(&state));
    }
    text
}
