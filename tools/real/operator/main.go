// Command operator is a small operator as a stranger writes it for kind: controller-runtime's
// manager with its cache, leader election, a typed custom resource, a finalizer, owned objects,
// server-side apply and Events. Tests run it on a real control plane and on the simulator.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const finalizer = "example.com/farewell"

var version = schema.GroupVersion{Group: "example.com", Version: "v1"}

// GardenSpec is what a person wants.
type GardenSpec struct {
	Plants int32  `json:"plants"`
	Sort   string `json:"sort,omitempty"`
}

// GardenStatus is what the operator saw.
type GardenStatus struct {
	Growing            int32              `json:"growing"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// Garden is the custom resource.
type Garden struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              GardenSpec   `json:"spec,omitempty"`
	Status            GardenStatus `json:"status,omitempty"`
}

// GardenList is a list of them.
type GardenList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Garden `json:"items"`
}

// DeepCopyObject copies a Garden.
func (in *Garden) DeepCopyObject() runtime.Object {
	out := *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Status.Conditions = append([]metav1.Condition(nil), in.Status.Conditions...)
	return &out
}

// DeepCopyObject copies a list.
func (in *GardenList) DeepCopyObject() runtime.Object {
	out := &GardenList{TypeMeta: in.TypeMeta, ListMeta: in.ListMeta}
	for i := range in.Items {
		out.Items = append(out.Items, *in.Items[i].DeepCopyObject().(*Garden))
	}
	return out
}

type reconciler struct {
	client.Client
	events record.EventRecorder
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	garden := &Garden{}
	if err := r.Get(ctx, request.NamespacedName, garden); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !garden.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, r.bidFarewell(ctx, garden)
	}
	if controllerutil.AddFinalizer(garden, finalizer) {
		return ctrl.Result{}, r.Update(ctx, garden)
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: garden.Name, Namespace: garden.Namespace}}
	done, err := controllerutil.CreateOrUpdate(ctx, r.Client, deployment, func() error {
		labels := map[string]string{"garden": garden.Name}
		deployment.Spec.Replicas = &garden.Spec.Plants
		if deployment.CreationTimestamp.IsZero() {
			deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
			deployment.Spec.Template.Labels = labels
			deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "plant", Image: "plant"}}
		}
		deployment.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "SORT", Value: garden.Spec.Sort}}
		return controllerutil.SetControllerReference(garden, deployment, r.Scheme())
	})
	if err != nil {
		return ctrl.Result{}, err
	}
	if done != controllerutil.OperationResultNone {
		r.events.Eventf(garden, corev1.EventTypeNormal, "Planted", "the Deployment was %s", done)
	}
	label := corev1apply.ConfigMap(garden.Name+"-label", garden.Namespace).
		WithData(map[string]string{"sort": garden.Spec.Sort})
	if err := r.Apply(ctx, label, client.FieldOwner("gardener"), client.ForceOwnership); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.report(ctx, garden, deployment)
}

func (r *reconciler) report(ctx context.Context, garden *Garden, deployment *appsv1.Deployment) error {
	before := garden.DeepCopyObject().(*Garden)
	garden.Status.Growing = deployment.Status.ReadyReplicas
	garden.Status.ObservedGeneration = garden.Generation
	condition := metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "Growing", ObservedGeneration: garden.Generation}
	if garden.Status.Growing == garden.Spec.Plants {
		condition.Status, condition.Reason = metav1.ConditionTrue, "Grown"
	}
	meta.SetStatusCondition(&garden.Status.Conditions, condition)
	return r.Status().Patch(ctx, garden, client.MergeFrom(before))
}

func (r *reconciler) bidFarewell(ctx context.Context, garden *Garden) error {
	if !controllerutil.ContainsFinalizer(garden, finalizer) {
		return nil
	}
	farewell := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: garden.Name + "-farewell", Namespace: garden.Namespace}}
	if err := r.Create(ctx, farewell); client.IgnoreAlreadyExists(err) != nil {
		return err
	}
	controllerutil.RemoveFinalizer(garden, finalizer)
	return r.Update(ctx, garden)
}

func run() error {
	ctrl.SetLogger(zap.New())
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return err
	}
	scheme.AddKnownTypes(version, &Garden{}, &GardenList{})
	metav1.AddToGroupVersion(scheme, version)
	manager, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{
		Scheme:                  scheme,
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress:  "0",
		LeaderElection:          true,
		LeaderElectionID:        "gardener.example.com",
		LeaderElectionNamespace: "kube-system",
	})
	if err != nil {
		return err
	}
	r := &reconciler{manager.GetClient(), manager.GetEventRecorderFor("gardener")}
	err = ctrl.NewControllerManagedBy(manager).For(&Garden{}).Owns(&appsv1.Deployment{}).Complete(r)
	if err != nil {
		return err
	}
	return manager.Start(ctrl.SetupSignalHandler())
}

func main() {
	flag.Parse() // --kubeconfig is controller-runtime's
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
