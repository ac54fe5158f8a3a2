//! The worked traces of the specification, as the machine runs them.
use crate::build::*;
use crate::world::*;

#[test]
fn a() {
    let mut world = World::new(plan([resource(0, "ConfigMap/c"), resource(0, "Deployment/api")]), request());
    world.run();
    panic!("{:#?} {:#?}", world.transcript, world.results());
}
