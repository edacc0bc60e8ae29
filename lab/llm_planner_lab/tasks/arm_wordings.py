# SPDX-License-Identifier: Apache-2.0
"""How people word what they ask of an arm; templates as explained in ``wording``, the plainest first."""

from llm_planner_lab.tasks.wording import lines

PUT = lines(
    """
    put {x} (in|on|into|onto) {y}
    place {x} (in|on|into|onto) {y}
    pick up {x} and (put|place) it (in|on|into|onto) {y}
    move {x} to {y}
    bring {x} to {y}
    pick {x} and place it (in|on) {y}
    take {x} and put it (in|on) {y}
    drop {x} (in|into) {y}
    set {x} on {y}
    move {x} (onto|into) {y}
    transfer {x} to {y}
    put {x} on top of {y}
    grasp {x} and place it on {y}
    carry {x} to {y}
    deposit {x} (in|on) {y}
    relocate {x} to {y}
    lay {x} (in|on) {y}
    grab {x}, it belongs (in|on) {y}
    """
)
PICK = lines(
    """
    pick up {x}
    pick {x}
    grab {x}
    grasp {x}
    take {x}
    lift {x}
    pick {x} up
    get {x}
    seize {x}
    collect {x}
    """
)
PUSH = lines(
    """
    push {x} to {y}
    push {x} towards {y}
    shove {x} to {y}
    slide {x} to {y}
    push {x} over to {y}
    nudge {x} to {y}
    press {x} across to {y}
    slide {x} over towards {y}
    """
)
ABOVE = lines(
    """
    move to {x}
    move above {x}
    go to {x}
    move the gripper to {x}
    hover over {x}
    move over {x}
    go above {x}
    point at {x}
    move the tool above {x}
    position yourself over {x}
    bring the tool to {x}
    """
)
FIXED: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        lines(
            """
    go home
    move home
    return to the home position
    go to the home pose
    home
    move to your home position
    go back home
    return to your rest pose
    retract to home
    """
        ),
        "home();",
    ),
    (
        lines(
            """
    open the gripper
    open your hand
    open the hand
    open gripper
    release
    let go
    spread the fingers
    """
        ),
        "open();",
    ),
    (
        lines(
            """
    close the gripper
    close your hand
    close the hand
    close gripper
    shut the gripper
    clench the fingers
    """
        ),
        "close();",
    ),
)
WAIT = lines(
    """
    wait {n}
    wait for {n}
    pause for {n}
    hold for {n}
    pause {n}
    rest for {n}
    stay still for {n}
    do nothing for {n}
    """
)
SAY = lines(
    """
    say {t}
    say '{t}'
    tell me {t}
    say "{t}"
    report {t}
    announce {t}
    speak the words {t}
    """
)
PUT_IT = lines(
    """
    put it (in|on) {y}
    place it (in|on) {y}
    move it to {y}
    pick it up and put it (in|on) {y}
    put it (into|onto) {y}
    """
)
IF_THERE = lines(
    """
    if there is {x}, {do}
    if you see {x}, {do}
    {do} if there is {x}
    if {x} is on the table, {do}
    if {x} is there, {do}
    when you see {x}, {do}
    should there be {x}, {do}
    {do} in case {x} is on the table
    """
)
IF_MISSING = lines(
    """
    if there is no {x}, {do}
    if you don't see {x}, {do}
    unless there is {x}, {do}
    {do} if there is no {x}
    if {x} is not on the table, {do}
    should {x} be missing, {do}
    """
)
STACK_LISTED = lines(
    """
    stack {l}
    stack {l} from bottom to top
    make a stack of {l}
    stack {l} in this order
    build a tower of {l}
    pile up {l}
    stack {l}, starting at the bottom
    stack {l} on top of each other
    build a stack with {l}, bottom first
    pile {l} into one stack
    make a tower out of {l}, from the bottom up
    """
)
STACK_ON = lines(
    """
    stack {l}
    put {l}
    place {l}
    stack up {l}
    pile {l}
    """
)
STACK_COLOURS = lines(
    """
    stack the {k}s {l}
    stack the {l} {k}s
    stack the {k}s in the order {l}
    build a tower of the {k}s {l}
    pile up the {k}s {l}
    stack the {k}s {l} from bottom to top
    make a stack of the {l} {k}s
    pile the {k}s into a tower: {l}
    the {k}s should be stacked {l}
    """
)
STACK_ALL = lines(
    """
    stack all the {k}s
    stack the {k}s
    make one stack of all {k}s
    build a tower of all the {k}s
    pile up the {k}s
    put all {k}s on top of each other
    stack every {k}
    pile all the {k}s into one tower
    turn the {k}s into a tower
    """
)
STACK_OBJECTS = lines(
    """
    stack the objects
    object stacking
    stack the objects on the table
    stack all objects
    stack everything
    stack all the objects
    build a tower of all objects
    stack all objects on the table
    stack everything on the table
    pile up the objects
    pile up everything
    """
)
CLEAN = lines(
    """
    clean the desk
    clean up the desk
    tidy the desk
    tidy up the desk
    clear the desk
    clean the table
    tidy up
    clean up
    clean up the table
    tidy up my desk
    clean my desk
    the desk is messy, clean it
    make the desk tidy
    desk cleaning
    clear up the table
    tidy my workplace
    please clean the work desk
    put the desk in order
    straighten up the desk
    get this desk neat
    cleanse the desktop
    """
)
RUBBISH = lines(
    """
    throw away the (trash|rubbish|garbage)
    throw the (trash|rubbish|garbage) in the bin
    remove the (trash|rubbish|garbage)
    put the (trash|rubbish|garbage) into the bin
    clear away the (trash|rubbish)
    collect the (trash|garbage)
    get rid of the (trash|rubbish)
    dump the (trash|waste) in the bin
    dispose of the waste
    """
)
ALL_INTO = lines(
    """
    put everything (in|into|on) {y}
    put all (things|objects|items) (in|into|on) {y}
    move everything to {y}
    place all objects (in|on) {y}
    clear everything into {y}
    gather everything (in|on) {y}
    all of it belongs (in|on) {y}
    """
)
SORT = lines(
    """
    sort the fruit and vegetables
    sort the fruits and vegetables
    sort fruit and vegetables
    separate the fruit from the vegetables
    classify the fruits and vegetables
    classify the fruit and vegetables
    separate fruits and vegetables
    sort the food
    divide the fruits and the vegetables
    sort the groceries
    fruit and vegetable classification
    classify fruit and vegetables
    sort the produce
    sort vegetables and fruit
    split up the fruit and the vegetables
    arrange fruits and vegetables apart
    group the produce into fruit and vegetables
    """
)
SORT_INTO = lines(
    """
    put the fruit (in|on) {x} and the vegetables (in|on) {y}
    fruits go (in|to|on) {x}, vegetables go (in|to|on) {y}
    sort the fruit into {x} and the vegetables into {y}
    move all fruit to {x} and all vegetables to {y}
    classify: fruit to {x}, vegetables to {y}
    place fruits (in|on) {x} and vegetables (in|on) {y}
    fruit belongs (in|on) {x}, vegetables belong (in|on) {y}
    distribute the fruit to {x} and the vegetables to {y}
    """
)
ONLY = lines(
    """
    put (all|) the {k} (in|into|on) {y}
    move (all|) the {k} to {y}
    place the {k} (in|on) {y}
    pick out the {k} and put them (in|on) {y}
    gather the {k} (in|on) {y}
    """
)
