//! Maintenance: calls the work that a database without background threads does only on request.

use super::World;
use mainstay::Clock;
use std::sync::Arc;
use std::time::Duration;

/// Runs maintenance until the world ends.
pub async fn keep(world: Arc<World>) {
    let mut random = world.random(1);
    loop {
        let pause = Duration::from_millis(10 + random.below(150));
        world.simulation.sleep(pause).await;
        match random.below(20) {
            0..=6 => drop(world.server.attend("sweep", mainstay::Database::sweep)),
            7..=11 => world.server.follow(),
            12..=14 => drop(world.server.attend("sync", mainstay::Database::sync)),
            15 => drop(world.server.attend("reap", mainstay::Database::reap)),
            16..=17 => trim(&world),
            _ => step_back(&world, random.below(3_000_000)),
        }
    }
}

/// Trims only after the feed consumer has caught up, so that it never loses its position.
fn trim(world: &World) {
    world.server.follow();
    drop(world.server.attend("trim", mainstay::Database::trim));
}

/// Steps the wall clock back, as a time server might.
fn step_back(world: &World, by_us: u64) {
    let clock = world.simulation.clock();
    clock.set_wall(clock.wall_us() - by_us);
}
