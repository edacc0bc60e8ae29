// SPDX-License-Identifier: Apache-2.0
// A world file in Gazebo's own physics library, moved as Gazebo's systems move it; commands on stdin, states on stdout.
//
// Gazebo itself is in no Debian package, its physics library is: ignition-physics 5 with its DART plugin, of Gazebo
// Fortress. What stands here of the systems is their law alone, taken from gz-sim: JointTrajectoryController (first
// point whose time has not passed, two ignition::math::PID), DetachableJoint (begins attached), VelocityControl.
#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <ignition/math/PID.hh>
#include <ignition/physics/FixedJoint.hh>
#include <ignition/physics/ForwardStep.hh>
#include <ignition/physics/FrameSemantics.hh>
#include <ignition/physics/FreeGroup.hh>
#include <ignition/physics/GetEntities.hh>
#include <ignition/physics/Joint.hh>
#include <ignition/physics/Link.hh>
#include <ignition/physics/RequestEngine.hh>
#include <ignition/physics/sdf/ConstructWorld.hh>
#include <ignition/plugin/Loader.hh>
#include <sdf/sdf.hh>

namespace physics = ignition::physics;
using Features = physics::FeatureList<
    physics::ForwardStep, physics::GetEntities, physics::GetBasicJointState, physics::SetBasicJointState,
    physics::LinkFrameSemantics, physics::AddLinkExternalForceTorque, physics::SetFreeGroupWorldVelocity,
    physics::AttachFixedJointFeature, physics::DetachJointFeature, physics::SetJointTransformFromParentFeature,
    physics::sdf::ConstructSdfWorld>;
using Model = physics::Model3dPtr<Features>;
using Link = physics::Link3dPtr<Features>;
using Joint = physics::Joint3dPtr<Features>;
using FixedJoint = physics::FixedJoint3dPtr<Features>;
using Seconds = std::chrono::duration<double>;

struct Actuated
{
  Joint joint;
  ignition::math::PID position, velocity;
  double wanted = 0.0, speed = 0.0;
};

struct Point
{
  double after = 0.0;
  std::vector<double> positions, velocities;
};

struct Arm
{
  std::vector<std::string> names;
  std::vector<Actuated> joints;
  std::vector<Point> points;
  double begun = 0.0;
};

struct Grip
{
  Link gripper, thing;
  std::unique_ptr<FixedJoint> joint;
};

struct Floating  // a link that gravity does not pull; this old library knows no such thing, so it is held up
{
  Link link;
  Eigen::Vector3d centre;
  double weight;
};

static std::vector<double> numbers(const sdf::ElementPtr &plugin, const std::string &name)
{
  std::vector<double> found;
  for (auto e = plugin->HasElement(name) ? plugin->FindElement(name) : nullptr; e; e = e->GetNextElement(name))
    found.push_back(e->Get<double>());
  return found;
}

static ignition::math::PID pid(const sdf::ElementPtr &plugin, const std::string &kind, std::size_t n)
{
  auto value = [&](const std::string &name, double otherwise) {
    const auto all = numbers(plugin, kind + name);
    return n < all.size() ? all[n] : otherwise;
  };
  return ignition::math::PID(value("_p_gain", 0), value("_i_gain", 0), value("_d_gain", 0), value("_i_max", -1),
                             value("_i_min", 0), value("_cmd_max", -1), value("_cmd_min", 0), 0);
}

int main(int argc, char **argv)
{
  if (argc != 3)
    return 2;
  ignition::plugin::Loader loader;
  loader.LoadLib(argv[1]);
  auto engine = physics::RequestEngine3d<Features>::From(loader.Instantiate("ignition::physics::dartsim::Plugin"));
  sdf::Root root;
  for (const auto &error : root.Load(argv[2]))
    std::cerr << error.Message() << "\n";
  const sdf::World &file = *root.WorldByIndex(0);
  auto world = engine->ConstructWorld(file);
  const double dt = file.PhysicsByIndex(0)->MaxStepSize(), gravity = -file.Gravity().Z();

  std::map<std::string, Arm> arms;
  std::map<std::string, Grip> grips;
  std::map<std::string, Link> tracked;
  std::map<std::string, std::vector<double>> velocities;
  std::vector<Floating> floating;
  std::vector<std::string> news;
  double now = 0.0;

  auto attach = [&](const std::string &name) {
    Grip &grip = grips.at(name);
    if (grip.joint)
      return;
    const auto gripper = grip.gripper->FrameDataRelativeToWorld().pose;
    const auto thing = grip.thing->FrameDataRelativeToWorld().pose;
    grip.joint = std::make_unique<FixedJoint>(grip.thing->AttachFixedJoint(grip.gripper, "grip_" + name));
    (*grip.joint)->SetTransformFromParent(gripper.inverse() * thing);
    news.push_back(name + " attached");
  };
  auto detach = [&](const std::string &name) {
    Grip &grip = grips.at(name);
    if (!grip.joint)
      return;
    (*grip.joint)->Detach();
    grip.joint.reset();
    news.push_back(name + " detached");
  };

  for (std::size_t m = 0; m < file.ModelCount(); ++m)
  {
    const sdf::Model &description = *file.ModelByIndex(m);
    const std::string name = description.Name();
    Model model = world->GetModel(name);
    for (std::size_t l = 0; l < description.LinkCount(); ++l)
    {
      const sdf::Link &link = *description.LinkByIndex(l);
      const auto inertia = link.Inertial();
      if (!description.Static() && !link.Element()->Get<bool>("gravity", true).first)
      {
        const auto at = inertia.Pose().Pos();
        const double weight = inertia.MassMatrix().Mass() * gravity;
        floating.push_back({model->GetLink(link.Name()), {at.X(), at.Y(), at.Z()}, weight});
      }
    }
    const auto element = description.Element();
    for (auto p = element->HasElement("plugin") ? element->FindElement("plugin") : nullptr; p;
         p = p->GetNextElement("plugin"))
    {
      const auto kind = p->Get<std::string>("name");
      if (kind == "gz::sim::systems::OdometryPublisher")
        tracked[name] = model->GetLink(0);
      if (kind == "gz::sim::systems::VelocityControl")
        velocities[name] = {0, 0, 0, 0};
      if (kind == "gz::sim::systems::DetachableJoint")
      {
        const auto thing = p->Get<std::string>("child_model");
        Grip grip{model->GetLink(p->Get<std::string>("parent_link")),
                  world->GetModel(thing)->GetLink(p->Get<std::string>("child_link")), nullptr};
        grips.emplace(name + "/" + thing, std::move(grip));
      }
      if (kind == "gz::sim::systems::JointTrajectoryController")
        for (auto e = p->FindElement("joint_name"); e; e = e->GetNextElement("joint_name"))
        {
          Arm &arm = arms[name];
          const auto n = arm.joints.size();
          arm.names.push_back(e->Get<std::string>());
          arm.joints.push_back({model->GetJoint(arm.names.back()), pid(p, "position", n), pid(p, "velocity", n)});
        }
    }
  }
  for (const auto &grip : grips)
    attach(grip.first);

  physics::ForwardStep::Input input;
  physics::ForwardStep::Output output;
  physics::ForwardStep::State state;
  const auto step = std::chrono::duration_cast<std::chrono::steady_clock::duration>(Seconds(dt));
  input.Get<std::chrono::steady_clock::duration>() = step;

  auto advance = [&]() {
    for (const auto &entry : floating)
      entry.link->AddExternalForce(
          physics::RelativeForce3d(physics::FrameID::World(), Eigen::Vector3d(0, 0, entry.weight)),
          physics::RelativePosition3d(*entry.link, entry.centre));
    for (auto &entry : arms)
    {
      Arm &arm = entry.second;
      std::size_t index = 0;
      while (index + 1 < arm.points.size() && arm.points[index].after < now - arm.begun)
        ++index;
      for (std::size_t n = 0; n < arm.joints.size(); ++n)
      {
        Actuated &actuated = arm.joints[n];
        if (!arm.points.empty())
        {
          actuated.wanted = arm.points[index].positions[n];
          actuated.speed = arm.points[index].velocities[n];
        }
        const double off = actuated.joint->GetPosition(0) - actuated.wanted;
        const double slip = actuated.joint->GetVelocity(0) - actuated.speed;
        actuated.joint->SetForce(0, actuated.position.Update(off, Seconds(dt)) +
                                        actuated.velocity.Update(slip, Seconds(dt)));
      }
    }
    for (const auto &entry : velocities)
    {
      auto group = world->GetModel(entry.first)->FindFreeGroup();
      const Eigen::Matrix3d turn = tracked.at(entry.first)->FrameDataRelativeToWorld().pose.linear();
      const auto &v = entry.second;
      group->SetWorldLinearVelocity(turn * Eigen::Vector3d(v[0], v[1], v[2]));
      group->SetWorldAngularVelocity(turn * Eigen::Vector3d(0, 0, v[3]));
    }
    world->Step(output, state, input);
    now += dt;
  };

  std::string line;
  while (std::getline(std::cin, line))
  {
    std::istringstream words(line);
    std::string order, name;
    words >> order;
    if (order == "trajectory")
    {
      words >> name;
      Arm &arm = arms.at(name);
      arm.points.clear();
      arm.begun = now;
      for (Point point; words >> point.after; arm.points.push_back(point))
        for (auto *values : {&point.positions, &point.velocities})
        {
          values->resize(arm.joints.size());
          for (double &value : *values)
            words >> value;
        }
    }
    else if (order == "attach" || order == "detach")
    {
      words >> name;
      order == "attach" ? attach(name) : detach(name);
    }
    else if (order == "velocity")
    {
      words >> name;
      for (double &value : velocities.at(name))
        words >> value;
    }
    else if (order == "step")
    {
      double seconds = 0.0;
      words >> seconds;
      for (const double end = now + seconds - dt / 2; now < end;)
        advance();
      std::cout << "time " << now << "\n";
      for (const auto &entry : arms)
      {
        std::cout << "joints " << entry.first;
        for (const auto &actuated : entry.second.joints)
          std::cout << " " << actuated.joint->GetPosition(0);
        std::cout << "\n";
      }
      for (const auto &entry : tracked)
      {
        const auto pose = entry.second->FrameDataRelativeToWorld().pose;
        const double yaw = std::atan2(pose.linear()(1, 0), pose.linear()(0, 0));
        std::cout << "place " << entry.first << " " << pose.translation().transpose() << " " << yaw << "\n";
      }
      for (const auto &entry : news)
        std::cout << "grip " << entry << "\n";
      news.clear();
      std::cout << "done" << std::endl;
    }
  }
  return 0;
}
