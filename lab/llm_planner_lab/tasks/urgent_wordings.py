# SPDX-License-Identifier: Apache-2.0
"""How people word emergencies; templates as explained in ``wording``, the plainest first."""

from llm_planner_lab.tasks.wording import lines

SIDES = {
    "left": lines(
        """
    from the left
    from your left
    from the left side
    on your left
    from left
    to your left
    off your left side
    """
    ),
    "right": lines(
        """
    from the right
    from your right
    from the right side
    on your right
    from right
    to your right
    off your right side
    """
    ),
    "front": lines(
        """
    from the front
    from ahead
    in front of you
    straight ahead
    ahead of you
    right in front
    ahead
    dead ahead
    """
    ),
    "behind": lines(
        """
    from behind
    behind you
    from the back
    from the rear
    at your back
    in your rear
    """
    ),
    "above": lines(
        """
    from above
    above you
    over you
    over your head
    overhead
    """
    ),
    "below": lines(
        """
    from below
    below you
    under you
    beneath you
    underneath you
    """
    ),
}
PERSON = lines(
    """
    avoid hurting {x} {s}
    (avoid|avoiding) human injury {s}
    (avoid|avoiding) injury, {x} is {s}
    {x} is (walking|running|coming|stepping|moving) (toward|towards|at) you {s}
    {x} is approaching {s}
    {x} (comes|walks|runs) {s}
    {x} is (very|too|) close {s}
    {x} {s}, do not hurt anybody
    watch out, {x} {s}
    avoid hurting {x} {s}
    avoid: {x} {s}
    avoid: {x} is (walking|running|coming|moving) (toward|towards) you {s}
    careful, {x} {s}
    {x} {s}, avoid injury
    do not hit {x} {s}
    {x} suddenly appears {s}
    avoid injuring {x} {s}
    danger, {x} is coming {s}
    keep away from {x} {s}
    heads up, {x} is heading your way {s}
    {x} dashes at you {s}
    protect {x} {s} from injury
    beware of {x} {s}
    """
)
COLLISION = lines(
    """
    (prevent|preventing) (a|the|potential|a potential) collision with {x} {s}
    (prevent|preventing) (a|the|potential|a potential) collision {s}
    (avoid|avoiding) (a|the) (potential|) collision with {x} {s}
    you are about to (hit|crash into|collide with) {x} {s}
    {x} {s}, avoid the collision
    collision warning: {x} {s}
    avoid: {x} {s}
    {x} is (coming|flying|moving|falling|approaching) {s}
    watch out for {x} {s}
    obstacle {s}: {x}
    prevent a collision with {x} {s}
    avoid colliding with {x} {s}
    {x} {s}, don't crash
    danger, {x} {s}
    there is {x} (very|too|) close {s}
    do not hit {x} {s}
    prevent the collision, {x} is {s}
    {x} {s}, get out of the way
    dodge {x} {s}
    heads up, {x} {s}
    brace, {x} {s}
    steer clear of {x} {s}
    impact with {x} {s} is imminent
    """
)
ANIMAL = lines(
    """
    (evade|evading) {x} {s}
    (evade|evading) (animal pursuit|the animal|an animal) {s}
    (evade|evading|escape) the pursuit (by|of) {x} {s}
    {x} is (chasing|attacking|hunting|following) you {s}
    {x} (jumps|runs|flies|leaps) at you {s}
    evade {x} {s}
    escape from {x} {s}
    {x} is after you {s}
    get away from {x} {s}
    {x} is coming at you {s}
    an attack by {x} {s}
    {x} pursues you {s}
    flee from {x} {s}
    watch out, {x} is attacking {s}
    avoid: {x} is chasing you {s}
    {x} is running at you {s}, escape
    run away from {x} {s}
    {x} is on your tail {s}
    shake off {x} {s}
    outrun {x} {s}
    """
)
KEEP = lines(
    """
    , keep {n} distance
    , move {n} away
    , keep at least {n} away
    , get {n} away
    , stay {n} away
    , leave {n} of room
    """
)
HAND = lines(
    """
    {x} is (reaching|putting a hand) into the workspace
    a hand is in the way
    {x} is too close to the arm
    stop, {x} is in the workspace
    {x} is about to touch the arm
    emergency stop
    stop immediately
    stop now
    {x} is near the gripper
    danger, {x} is beside the arm
    avoid hurting {x}
    avoid injuring {x}
    a hand is under the gripper
    careful, {x} is reaching in
    avoid: {x} is (approaching|near) the arm
    you are about to hit {x}
    avoid the collision with {x}
    stop the arm
    freeze
    halt
    stop
    cease all motion
    {x} leans over the table
    do not squash the fingers of {x}
    """
)
