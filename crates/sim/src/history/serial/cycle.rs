//! Cycle detection: strongly connected components by Tarjan, and the shortest cycle in one of them.

use super::Link;
use super::graph::{Graph, Label};
use std::collections::VecDeque;

/// The most transactions from which a shortest cycle is searched.
const STARTS: usize = 500;

/// A cycle: each transaction with the edge to the next.
pub type Cycle = Vec<(u32, Label)>;

/// Returns a short cycle, if any exists.
pub fn shortest(graph: &Graph) -> Option<Cycle> {
    let components = Components::of(graph);
    let starts = (0..graph.transactions as u32)
        .filter(|node| components.sizes[components.of[*node as usize] as usize] > 1)
        .take(STARTS);
    let cycles = starts.filter_map(|start| from(graph, start, &components.of));
    cycles.min_by_key(|cycle| cycle.len())
}

/// The strongly connected components of a graph.
struct Components {
    of: Vec<u32>,
    sizes: Vec<u32>,
}

const UNSEEN: u32 = u32::MAX;

impl Components {
    /// Tarjan's algorithm with an explicit stack, because chains of moments are long.
    fn of(graph: &Graph) -> Components {
        let mut walk = Walk::new(graph.links.len());
        for root in 0..graph.links.len() as u32 {
            if walk.index[root as usize] == UNSEEN {
                walk.visit(&graph.links, root);
            }
        }
        Components { of: walk.component, sizes: walk.sizes }
    }
}

struct Walk {
    index: Vec<u32>,
    low: Vec<u32>,
    component: Vec<u32>,
    sizes: Vec<u32>,
    open: Vec<u32>,
    count: u32,
}

impl Walk {
    fn new(nodes: usize) -> Walk {
        let unseen = || vec![UNSEEN; nodes];
        let index = unseen();
        let low = unseen();
        let component = unseen();
        Walk { index, low, component, sizes: Vec::new(), open: Vec::new(), count: 0 }
    }

    fn visit(&mut self, links: &[Vec<Link>], root: u32) {
        let mut path = vec![(root, 0)];
        self.enter(root);
        while let Some((node, next)) = path.last_mut() {
            let node = *node;
            let Some((to, _)) = links[node as usize].get(*next) else {
                path.pop();
                self.leave(node);
                if let Some((parent, _)) = path.last() {
                    self.lower(*parent, self.low[node as usize]);
                }
                continue;
            };
            *next += 1;
            if self.index[*to as usize] == UNSEEN {
                self.enter(*to);
                path.push((*to, 0));
            } else if self.component[*to as usize] == UNSEEN {
                self.lower(node, self.index[*to as usize]);
            }
        }
    }

    fn enter(&mut self, node: u32) {
        self.index[node as usize] = self.count;
        self.low[node as usize] = self.count;
        self.count += 1;
        self.open.push(node);
    }

    fn lower(&mut self, node: u32, to: u32) {
        let low = &mut self.low[node as usize];
        *low = (*low).min(to);
    }

    /// Closes a component when the search leaves its first node.
    fn leave(&mut self, node: u32) {
        if self.low[node as usize] != self.index[node as usize] {
            return;
        }
        let number = self.sizes.len() as u32;
        let mut size = 0;
        while let Some(member) = self.open.pop() {
            self.component[member as usize] = number;
            size += 1;
            if member == node {
                break;
            }
        }
        self.sizes.push(size);
    }
}

/// Returns the shortest cycle through a transaction within its component. Edges between moments have no
/// length.
fn from(graph: &Graph, start: u32, component: &[u32]) -> Option<Cycle> {
    let mut came: Vec<Option<(u32, Label)>> = vec![None; graph.links.len()];
    let mut queue = VecDeque::from([start]);
    while let Some(node) = queue.pop_front() {
        for (to, label) in &graph.links[node as usize] {
            if component[*to as usize] != component[start as usize] {
                continue;
            }
            if *to == start {
                return Some(back(graph, start, (node, *label), &came));
            }
            if came[*to as usize].is_none() {
                came[*to as usize] = Some((node, *label));
                if *to as usize >= graph.transactions {
                    queue.push_front(*to)
                } else {
                    queue.push_back(*to)
                }
            }
        }
    }
    None
}

/// Reconstructs a cycle from its last edge, without the moments.
fn back(graph: &Graph, start: u32, last: (u32, Label), came: &[Option<(u32, Label)>]) -> Cycle {
    let mut cycle = Vec::new();
    let mut step = Some(last);
    while let Some((node, label)) = step {
        if (node as usize) < graph.transactions {
            cycle.push((node, label));
        }
        step = if node == start { None } else { came[node as usize] };
    }
    cycle.reverse();
    cycle
}
