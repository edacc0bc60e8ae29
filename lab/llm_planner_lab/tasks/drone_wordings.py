# SPDX-License-Identifier: Apache-2.0
"""How people word what they ask of a drone; templates as explained in ``wording``, the plainest first."""

from llm_planner_lab.tasks.wording import lines

MOVES = {
    "mf": lines(
        """
    (fly|move|go) forward {n}
    (fly|move|go) {n} forward
    (fly|move|go) {n} ahead
    (fly|move|go) ahead {n}
    advance {n}
    forward {n}
    (move|fly|go) straight ahead (for|by) {n}
    move forwards by {n}
    {n} forward
    go straight {n}
    proceed {n} forward
    fly straight on for {n}
    """
    ),
    "mb": lines(
        """
    (fly|move|go) (back|backward|backwards) {n}
    (fly|move|go) {n} (back|backward|backwards)
    back up {n}
    back {n}
    (move|go|fly) back (by|for) {n}
    retreat {n}
    reverse {n}
    pull back {n}
    back off by {n}
    """
    ),
    "ml": lines(
        """
    (fly|move|go) left {n}
    (fly|move|go) {n} (left|to the left)
    (move|fly|go) to the left {n}
    shift left {n}
    left {n}
    slide {n} to the left
    move left (by|for) {n}
    (go|fly) sideways to the left (by|for) {n}
    drift {n} left
    sidestep left by {n}
    """
    ),
    "mr": lines(
        """
    (fly|move|go) right {n}
    (fly|move|go) {n} (right|to the right)
    (move|fly|go) to the right {n}
    shift right {n}
    right {n}
    slide {n} to the right
    move right (by|for) {n}
    (go|fly) sideways to the right (by|for) {n}
    drift {n} right
    sidestep right by {n}
    """
    ),
    "mu": lines(
        """
    (fly|move|go) up {n}
    (fly|move|go) {n} (up|upward|upwards|higher)
    climb {n}
    rise {n}
    rise by {n}
    ascend {n}
    up {n}
    go up (by|for) {n}
    climb (by|up) {n}
    gain {n} of height
    ascend by {n}
    """
    ),
    "md": lines(
        """
    (fly|move|go) down {n}
    (fly|move|go) {n} (down|downward|downwards|lower)
    descend {n}
    descend by {n}
    sink {n}
    down {n}
    go down (by|for) {n}
    lower yourself by {n}
    lose {n} of height
    drop by {n}
    """
    ),
}
TURNS = {
    "tc": lines(
        """
    (turn|rotate) right {n}
    (turn|rotate) {n} (right|to the right|clockwise)
    (turn|rotate) clockwise {n}
    spin right {n}
    (turn|rotate) to the right {n}
    yaw right {n}
    rotate {n} cw
    swing right {n}
    pivot clockwise {n}
    """
    ),
    "tu": lines(
        """
    (turn|rotate) left {n}
    (turn|rotate) {n} (left|to the left|counterclockwise|counter-clockwise|anticlockwise)
    (turn|rotate) (counterclockwise|anticlockwise) {n}
    spin left {n}
    (turn|rotate) to the left {n}
    yaw left {n}
    rotate {n} ccw
    swing left {n}
    pivot counterclockwise {n}
    """
    ),
}
FIXED: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        lines(
            """
    turn around
    make a u-turn
    turn to face the other way
    do a half turn
    face backwards
    turn about
    """
        ),
        "tc(180);",
    ),
    (
        lines(
            """
    spin around once
    make a full turn
    do a full rotation
    turn a full circle
    do a complete spin
    """
        ),
        "tc(360);",
    ),
    (
        lines(
            """
    turn left
    rotate left
    turn to the left
    make a quarter turn left
    face left
    """
        ),
        "tu(90);",
    ),
    (
        lines(
            """
    turn right
    rotate right
    turn to the right
    make a quarter turn right
    face right
    """
        ),
        "tc(90);",
    ),
    (
        lines(
            """
    (move|go|fly) forward
    (go|fly|move) straight ahead
    head forward
    """
        ),
        "mf(100);",
    ),
    (
        lines(
            """
    (move|go|fly) (back|backward|backwards)
    head back
    """
        ),
        "mb(100);",
    ),
    (
        lines(
            """
    (move|go|fly) (up|higher)
    climb
    rise
    ascend
    """
        ),
        "mu(50);",
    ),
    (
        lines(
            """
    (move|go|fly) (down|lower)
    sink
    descend
    """
        ),
        "md(50);",
    ),
    (
        lines(
            """
    (move|go|fly) left
    (move|go|fly) to the left
    shift to the left
    """
        ),
        "ml(100);",
    ),
    (
        lines(
            """
    (move|go|fly) right
    (move|go|fly) to the right
    shift to the right
    """
        ),
        "mr(100);",
    ),
)
PICTURE = lines(
    """
    take a (picture|photo|photograph)
    take a snapshot
    (shoot|snap) a photo
    take one picture
    capture an image
    take a pic
    photograph what you see
    grab a picture
    record an image
    """
)
LAND = lines(
    """
    land
    land now
    come down and land
    land here
    touch down
    go down to the ground
    set down on the floor
    """
)
TAKE_OFF = lines(
    """
    take off
    lift off
    launch
    start flying
    take off now
    get into the air
    get airborne
    begin your flight
    """
)
WAIT = lines(
    """
    wait {n}
    wait for {n}
    pause for {n}
    hover for {n}
    stay there for {n}
    delay {n}
    hold still for {n}
    rest for {n}
    """
)
STOP = lines(
    """
    stop
    hover
    hold your position
    stop moving
    freeze
    stop right there
    halt
    stay put
    """
)
SAY = lines(
    """
    say {t}
    say '{t}'
    tell me {t}
    say "{t}"
    log {t}
    report {t}
    announce {t}
    speak the words {t}
    """
)
GOTO = lines(
    """
    go to {x}
    fly to {x}
    move to {x}
    approach {x}
    go over to {x}
    come close to {x}
    head to {x}
    get to {x}
    fly over to {x}
    navigate to {x}
    visit {x}
    move towards {x}
    fly up to {x}
    go near {x}
    get close to {x}
    (go|fly) to {x}. if it is not in view, look for it
    (go|fly|move) to {x}, if you (can't|cannot|don't) see it, (search|look) for it
    (go|fly) to {x}; search for it if it is not visible
    travel to {x}
    make your way to {x}
    take yourself to {x}, looking for it if needed
    fly right up to {x}
    """
)
FIND = lines(
    """
    look for {x}
    find {x}
    search for {x}
    locate {x}
    where is {x}
    go and find {x}
    try to find {x}
    find {x} and go there
    look for {x} and fly to it
    find me {x}
    i lost {x}, find it
    help me find {x}
    look around for {x}
    seek {x}
    where is {x}?
    search the room for {x}
    can you find {x}?
    (look|search) for {x} and go to it
    hunt for {x}
    track down {x}
    discover where {x} is
    {x} is missing, search for it
    """
)
LOOK_AT = lines(
    """
    look at {x}
    turn to {x}
    face {x}
    turn towards {x}
    point the camera at {x}
    orient to {x}
    turn to face {x}
    aim at {x}
    point yourself at {x}
    direct your camera to {x}
    """
)
IS_THERE = lines(
    """
    is there {x}?
    check if there is {x}
    can you see {x}?
    do you see {x}?
    tell me if you see {x}
    check whether {x} is here
    check for {x}
    is {x} here?
    is there {x} around?
    see if there is {x}
    look whether there is {x}
    is {x} present?
    verify whether there is {x}
    """
)
CHECK_OR = lines(
    """
    check for {x} or {y}
    check for {x} and {y}
    check if there is {x} or {y}
    do you see {x} or {y}?
    is there {x} or {y}?
    look whether there is {x} or {y}
    see if there are {x} or {y}
    tell me if you see {x} or {y}
    are there any {x} or {y}?
    check whether {x} or {y} are here
    can you see {x} or {y}?
    any sign of {x} or {y}?
    verify if {x} or {y} are around
    inspect the room for {x} or {y}
    """
)
CHECK_ON = lines(
    """
    check {x} on {y}
    check {x} on top of {y}
    inspect {x} on {y}
    look at {x} on {y}
    have a look at {x} on {y}
    check {x} that is on {y}
    examine {x} on {y}
    check {x} lying on {y}
    take a look at {x} on {y}
    take a picture of {x} on {y}
    study {x} on {y}
    check out {x} that lies on {y}
    see about {x} on {y}
    """
)
FIND_UNDER = lines(
    """
    find {x} under {y}
    look for {x} under {y}
    search for {x} under {y}
    look under {y} for {x}
    find {x} beneath {y}
    there is {x} under {y}, find it
    search under {y} for {x}
    locate {x} below {y}
    find {x} that is under {y}
    is there {x} under {y}? find it
    look for {x} underneath {y}
    hunt for {x} beneath {y}
    check under {y} for {x}
    {x} rolled under {y}, find it
    """
)
TOOL = lines(
    """
    find a tool for {p}
    find something for {p}
    look for a tool for {p}
    i need a tool for {p}
    search for something for {p}
    find me something useful for {p}
    locate a tool for {p}
    find an object for {p}
    go to something for {p}
    get me a tool for {p}
    which thing here serves for {p}? go to it
    seek a utensil for {p}
    i want to do some {p}, find a tool for that
    """
)
TOOL_TO = lines(
    """
    find a tool to {p}
    find something to {p}
    look for something to {p}
    i want to {p}, find a tool for it
    find something that i can use to {p}
    i need something to {p}
    search for a tool to {p}
    find what i need to {p}
    i would like to {p}, what can i use? go there
    seek a utensil to {p}
    """
)
IF_SEEN = lines(
    """
    if you see {x}, {do}
    if {x} is visible, {do}
    if there is {x}, {do}
    {do} if you see {x}
    when you see {x}, {do}
    if {x} is in view, {do}
    if you can see {x} then {do}
    {do} if {x} is visible
    in case you see {x}, {do}
    should you see {x}, {do}
    provided that {x} is in view, {do}
    {do} in case {x} is visible
    """
)
IF_NOT_SEEN = lines(
    """
    if you don't see {x}, {do}
    if {x} is not visible, {do}
    if there is no {x}, {do}
    {do} if you do not see {x}
    unless you see {x}, {do}
    if {x} is not in view, {do}
    if you can't see {x} then {do}
    {do} unless {x} is visible
    should {x} be out of view, {do}
    in the absence of {x}, {do}
    """
)
IF_EITHER = lines(
    """
    if you see {x} or {y}, {do}
    if {x} or {y} is visible, {do}
    {do} if you see {x} or {y}
    if there is {x} or {y}, {do}
    should you see {x} or {y}, {do}
    """
)
IF_BOTH = lines(
    """
    if you see {x} and {y}, {do}
    if both {x} and {y} are visible, {do}
    {do} if you see both {x} and {y}
    should you see both {x} and {y}, {do}
    """
)
IF_NEAR = lines(
    """
    if {x} is closer than {n}, {do}
    if {x} is less than {n} away, {do}
    {do} if {x} is nearer than {n}
    if {x} is within {n}, {do}
    should {x} be closer than {n}, {do}
    """
)
IF_FAR = lines(
    """
    if {x} is further than {n}, {do}
    if {x} is more than {n} away, {do}
    {do} if {x} is farther than {n}
    should {x} be further away than {n}, {do}
    """
)
REPEAT = lines(
    """
    {do} {n}
    {n} {do}
    {do}, {n}
    do this {n}: {do}
    repeat {n}: {do}
    {do} and repeat that {n} in total
    {n}: {do}
    perform this {n}: {do}
    {do} over and over, {n}
    """
)
SHAPES: tuple[tuple[tuple[str, ...], int, int], ...] = (
    (
        lines(
            """
    fly a square with sides of {n}
    fly a square of {n}
    make a square with {n} sides
    fly in a square, {n} per side
    trace a square with an edge of {n}
    """
        ),
        4,
        90,
    ),
    (
        lines(
            """
    fly a triangle with sides of {n}
    fly a triangle of {n}
    make a triangle with {n} sides
    trace a triangle with an edge of {n}
    """
        ),
        3,
        120,
    ),
    (
        lines(
            """
    fly a hexagon with sides of {n}
    fly a hexagon of {n}
    trace a hexagon with an edge of {n}
    """
        ),
        6,
        60,
    ),
)
